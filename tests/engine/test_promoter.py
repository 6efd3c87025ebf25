"""Scheduled and retrying jobs become pending; those that waited too long expire."""

from __future__ import annotations

import asyncio

import msgspec

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.service import Engine
from jobqueued.model.job import Status
from jobqueued.model.submission import Submission
from tests.engine.support import PATIENCE, HandClock, submit, wait_for


async def test_a_due_job_becomes_pending(engine: Engine, hand_clock: HandClock) -> None:
    promoter = engine.shared.promoter
    job = await submit(engine, delay=5_000)
    assert await promoter.run_once() == job.run_at
    hand_clock.advance(4_999)
    assert await promoter.run_once() == job.run_at
    assert (await engine.job(job.id)).status is Status.SCHEDULED
    hand_clock.advance(1)
    assert await promoter.run_once() is None
    assert (await engine.job(job.id)).status is Status.PENDING


async def test_it_sleeps_until_the_next_of_due_and_expiry(
    engine: Engine, hand_clock: HandClock
) -> None:
    now = hand_clock.now
    await submit(engine, delay=9_000)
    await submit(engine, expires_at=now + 7_000)
    assert await engine.shared.promoter.run_once() == now + 7_000


async def test_every_kind_of_waiting_job_expires(engine: Engine, hand_clock: HandClock) -> None:
    end = hand_clock.now + 5_000
    pending = await submit(engine, expires_at=end)
    scheduled = await submit(engine, expires_at=end, delay=9_000)
    lasting = await submit(engine)
    hand_clock.advance(5_000)
    assert await engine.shared.promoter.run_once() is None
    for job in (pending, scheduled):
        found = await engine.job(job.id)
        assert (found.status, found.finished_at) == (Status.EXPIRED, hand_clock.now)
    assert (await engine.job(lasting.id)).status is Status.PENDING
    assert engine.shared.meter.totals["expired"] == 2


async def test_a_job_that_is_due_and_over_expires(engine: Engine, hand_clock: HandClock) -> None:
    job = await submit(engine, delay=1_000, expires_at=hand_clock.now + 2_000)
    hand_clock.advance(3_000)
    await engine.shared.promoter.run_once()
    assert (await engine.job(job.id)).status is Status.EXPIRED


async def test_who_waits_is_told_of_an_expiry(engine: Engine, hand_clock: HandClock) -> None:
    job = await submit(engine, expires_at=hand_clock.now + 1_000)
    change = engine.shared.changes.next(job.id)
    hand_clock.advance(1_000)
    await engine.shared.promoter.run_once()
    assert change.done()


async def test_more_than_one_round_can_hold_are_due_at_once(
    engine: Engine, hand_clock: HandClock
) -> None:
    engine.shared.config = _deep(engine)
    await engine.submit_batch([Submission(type="quick", delay=1_000)] * 700, None)
    hand_clock.advance(1_000)
    following = await engine.shared.promoter.run_once()
    assert following is not None
    assert following <= hand_clock.now
    assert await engine.shared.promoter.run_once() is None
    assert engine.store.counts.of("quick", "pending") == 700


def _deep(engine: Engine) -> Config:
    queue = msgspec.structs.replace(engine.config.queue, max_depth=1000)
    return msgspec.structs.replace(engine.config, queue=queue)


async def test_a_delayed_job_runs_by_itself(live: Engine) -> None:
    job = await submit(live, delay=100)
    done = await wait_for(live, job.id, Status.COMPLETED)
    assert done.started_at is not None
    assert done.started_at >= job.run_at


async def test_a_waiting_job_expires_by_itself(live: Engine) -> None:
    job = await submit(live, delay=3_600_000, expires_at=clock.now() + 100)
    async with asyncio.timeout(PATIENCE):
        assert (await live.wait(job.id, PATIENCE)).status is Status.EXPIRED


async def test_a_job_that_waits_for_its_retry_expires_before_it(live: Engine) -> None:
    """Its expiry was known long ago; the promoter sleeps until the retry unless it is told."""
    job = await submit(live, "later", expires_at=clock.now() + 1_500)
    await wait_for(live, job.id, Status.RETRYING)
    done = await wait_for(live, job.id, Status.EXPIRED)
    assert done.attempt == 1
