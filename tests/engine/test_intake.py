"""The only door in: depth, defaults, pace and expiry."""

from __future__ import annotations

import asyncio

import pytest

from jobqueued.engine.service import Engine
from jobqueued.model.errors import Draining, QueueFull, UnknownType
from jobqueued.model.job import Status
from jobqueued.model.submission import Submission, Submitted
from tests.engine.support import HandClock, claim, submit

DEPTH = 20


async def test_the_type_fills_in_what_was_left_out(engine: Engine, hand_clock: HandClock) -> None:
    job = await submit(engine)
    assert (job.status, job.priority, job.max_retries) == (Status.PENDING, 5, 2)
    assert (job.created_at, job.run_at, job.expires_at) == (hand_clock.now, hand_clock.now, None)
    assert await engine.job(job.id) == job


async def test_what_was_sent_goes_before_the_type(engine: Engine) -> None:
    job = await submit(engine, priority=0, max_retries=0, payload=b"[1]", key="k")
    assert (job.priority, job.max_retries, job.payload, job.key) == (0, 0, b"[1]", "k")


async def test_a_type_that_is_not_configured_is_refused(engine: Engine) -> None:
    with pytest.raises(UnknownType):
        await submit(engine, "nobody")


async def test_a_daemon_that_stops_takes_nothing(engine: Engine) -> None:
    engine.shared.draining = True
    with pytest.raises(Draining):
        await submit(engine)
    assert engine.store.counts.waiting == 0


async def test_the_queue_is_held_to_its_depth(engine: Engine) -> None:
    await engine.submit_batch([Submission(type="quick", delay=60_000)] * DEPTH, None)
    with pytest.raises(QueueFull) as caught:
        await submit(engine)
    assert caught.value.retry_after >= 1
    assert engine.store.counts.waiting == DEPTH


async def test_a_batch_goes_in_whole_or_not_at_all(engine: Engine) -> None:
    await submit(engine)
    with pytest.raises(QueueFull):
        await engine.submit_batch([Submission(type="quick")] * DEPTH, None)
    assert engine.store.counts.waiting == 1


async def test_jobs_on_their_way_to_disk_count(engine: Engine) -> None:
    """All of these are checked before the first of them is stored."""
    asked = [engine.submit(Submission(type="quick")) for _ in range(3 * DEPTH)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    taken = [answer for answer in answers if isinstance(answer, Submitted)]
    assert len(taken) == engine.store.counts.waiting == DEPTH
    assert sum(isinstance(answer, QueueFull) for answer in answers) == 2 * DEPTH


async def test_a_refused_job_does_not_take_a_place(engine: Engine) -> None:
    await submit(engine, idempotency_key="k")
    for _ in range(2 * DEPTH):
        again = await engine.submit(Submission(type="quick", idempotency_key="k"))
        assert again.replayed
    await engine.submit_batch([Submission(type="quick")] * (DEPTH - 1), None)
    assert engine.store.counts.waiting == DEPTH


async def test_running_jobs_do_not_count(engine: Engine) -> None:
    await engine.submit_batch([Submission(type="quick")] * DEPTH, None)
    assert await claim(engine)
    await submit(engine)
    assert engine.store.counts.waiting == DEPTH


async def test_a_pace_spreads_a_batch(engine: Engine, hand_clock: HandClock) -> None:
    _, placed = await engine.submit_batch([Submission(type="quick")] * 4, 2.0)
    assert [one.job.run_at - hand_clock.now for one in placed] == [0, 500, 1_000, 1_500]
    statuses = [one.job.status for one in placed]
    assert statuses == [Status.PENDING] + [Status.SCHEDULED] * 3


async def test_a_pace_comes_on_top_of_a_delay(engine: Engine, hand_clock: HandClock) -> None:
    _, placed = await engine.submit_batch([Submission(type="quick", delay=1_000)] * 2, 0.5)
    assert [one.job.run_at - hand_clock.now for one in placed] == [1_000, 3_000]


async def test_a_time_that_has_passed_means_now(engine: Engine, hand_clock: HandClock) -> None:
    job = await submit(engine, run_at=hand_clock.now - 60_000)
    assert (job.run_at, job.status) == (hand_clock.now, Status.PENDING)


async def test_an_expiry_may_be_a_moment_or_a_duration(
    engine: Engine, hand_clock: HandClock
) -> None:
    end = hand_clock.now + 5_000
    assert (await submit(engine, expires_at=end)).expires_at == end
    assert (await submit(engine, expires_in=5_000)).expires_at == end


async def test_a_duration_to_the_expiry_begins_with_the_submission(
    engine: Engine, hand_clock: HandClock
) -> None:
    """As the API reads it: it refuses an expiry that is not later than the delay."""
    job = await submit(engine, delay=10_000, expires_in=15_000)
    assert job.expires_at == hand_clock.now + 15_000


async def test_ids_grow_in_the_order_of_submission(engine: Engine, hand_clock: HandClock) -> None:
    first = await submit(engine)
    hand_clock.advance(-60_000)
    second = await submit(engine)
    _, batch = await engine.submit_batch([Submission(type="quick")] * 3, None)
    ids = [first.id, second.id, *(one.job.id for one in batch)]
    assert ids == sorted(set(ids))
