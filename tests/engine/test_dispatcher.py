"""Pending jobs go to idle workers, within the limits and under one configuration."""

from __future__ import annotations

import asyncio

import msgspec

from jobqueued.config import Config
from jobqueued.engine.service import Engine
from jobqueued.model.job import Status
from tests.engine.support import (
    Gate,
    HandClock,
    dispatch,
    started,
    submit,
    until,
    wait_for,
    without,
)


def with_workers(config: Config, pool: str, workers: int) -> Config:
    settings = msgspec.structs.replace(config.pools["default"], workers=workers)
    return msgspec.structs.replace(config, pools=config.pools | {pool: settings})


async def test_a_submitted_job_runs(live: Engine) -> None:
    job = await submit(live)
    done = await live.wait(job.id, 15)
    assert (done.status, done.attempt, done.worker) == (Status.COMPLETED, 1, done.worker)
    assert (done.worker or "").startswith("default-")
    await until(lambda: live.pools["default"].busy == 0)
    assert len(live.shared.running) == 0


async def test_what_is_claimed_is_running(live: Engine) -> None:
    job = await submit(live, "gate")
    running = await started(live, job.id)
    assert live.shared.running.by_token(running.claimed.lease.token) is running
    assert (await live.job(job.id)).lease_expires_at == running.lease_expires_at
    assert live.pools["default"].busy == 1


async def test_a_flood_of_one_type_leaves_room_for_another(live: Engine) -> None:
    for _ in range(6):
        await submit(live, "gate")
    await until(lambda: live.store.counts.of("gate", "processing") == 3)
    quick = await submit(live)
    assert (await live.wait(quick.id, 15)).status is Status.COMPLETED
    assert live.store.counts.of("gate", "processing") == 3
    assert live.store.counts.of("gate", "pending") == 3


async def test_a_pool_has_its_own_workers(live: Engine) -> None:
    for _ in range(6):
        await submit(live, "gate")
    alone = await submit(live, "alone")
    assert (await live.wait(alone.id, 15)).worker == "narrow-1"


async def test_a_free_worker_takes_the_next_job(live: Engine) -> None:
    jobs = [await submit(live, "alone") for _ in range(4)]
    done = [await live.wait(job.id, 15) for job in jobs]
    assert {job.status for job in done} == {Status.COMPLETED}
    starts = [job.started_at or 0 for job in done]
    assert starts == sorted(starts)


async def test_while_draining_nothing_is_claimed(live: Engine, gate: Gate) -> None:
    running = await submit(live, "gate")
    await started(live, running.id)
    waiting = await submit(live, delay=60_000)
    live.shared.draining = True
    await live.run_now(waiting.id)
    gate.open()
    assert (await live.wait(running.id, 15)).status is Status.COMPLETED
    assert (await live.job(waiting.id)).status is Status.PENDING


async def test_jobs_of_a_type_that_is_gone_wait_until_it_is_back(live: Engine) -> None:
    config = live.config
    job = await submit(live, delay=60_000)
    live.reload(without(config, "quick"))
    await live.run_now(job.id)
    other = await submit(live, "other")
    assert (await live.wait(other.id, 15)).status is Status.COMPLETED
    assert (await live.job(job.id)).status is Status.PENDING
    live.reload(config)
    assert (await live.wait(job.id, 15)).status is Status.COMPLETED
    assert [part.errors for part in live.parts] == [0] * len(live.parts)


async def test_a_reload_during_a_claim_leaves_nothing_behind(engine: Engine) -> None:
    """What was claimed under the old configuration runs under it."""
    job = await submit(engine)
    claiming = asyncio.create_task(dispatch(engine))
    await asyncio.sleep(0)
    engine.reload(without(engine.config, "quick"))
    await claiming
    done = await wait_for(engine, job.id, Status.RETRYING)
    assert done.attempt == 1


async def test_workers_can_be_added_while_all_are_busy(live: Engine) -> None:
    for _ in range(6):
        await submit(live, "gate")
    await until(lambda: live.store.counts.of("gate", "processing") == 3)
    live.reload(with_workers(live.config, "default", 10))
    await until(lambda: live.store.counts.of("gate", "processing") == 6)


async def test_a_new_pool_works_after_a_reload(live: Engine) -> None:
    config = with_workers(live.config, "new", 1)
    moved = msgspec.structs.replace(config.types["quick"], pool="new")
    live.reload(msgspec.structs.replace(config, types=config.types | {"quick": moved}))
    job = await submit(live)
    assert (await live.wait(job.id, 15)).worker == "new-1"


async def test_a_job_that_expired_is_not_started(engine: Engine, hand_clock: HandClock) -> None:
    job = await submit(engine, expires_at=hand_clock.now + 1_000)
    hand_clock.advance(1_000)
    await dispatch(engine)
    found = await engine.job(job.id)
    assert (found.status, found.attempt) == (Status.PENDING, 0)
    assert len(engine.shared.running) == 0


async def test_who_waits_is_told_when_a_claim_finds_a_job_expired(
    engine: Engine, hand_clock: HandClock
) -> None:
    job = await submit(engine, expires_at=hand_clock.now + 1_000)
    change = engine.shared.changes.next(job.id)
    hand_clock.advance(1_000)
    await dispatch(engine)
    await engine.shared.promoter.run_once()
    assert change.done()
    assert engine.shared.meter.totals["expired"] == 1
