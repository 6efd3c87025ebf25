"""Finished jobs go when their time is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from jobqueued import clock
from jobqueued.engine.retention import BUSY_SECONDS, FEWEST, MOST, QUIET_SECONDS, Pace
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.errors import NotFound
from jobqueued.model.job import Job
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.submission import Submission
from jobqueued.store.interface import Cleared
from tests.engine.support import HandClock, claim, claim_new, submit

MINUTE = 60_000
HOUR = 60 * MINUTE

Ending = Callable[[Engine, Settler], Awaitable[str]]


async def completed(engine: Engine, settler: Settler) -> str:
    claimed = await claim_new(engine)
    outcome = Outcome(kind=OutcomeKind.COMPLETED, result=b"1", log=b"log")
    await settler.settle([(claimed, outcome)])
    return claimed.lease.job_id


async def dead(engine: Engine, settler: Settler) -> str:
    claimed = await claim_new(engine)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.FATAL))])
    return claimed.lease.job_id


async def cancelled(engine: Engine, settler: Settler) -> str:
    job = await submit(engine)
    await engine.cancel(job.id)
    return job.id


async def is_kept(engine: Engine, job_id: str) -> bool:
    return await engine.store.job(job_id) is not None


async def clean(engine: Engine) -> int | None:
    """Run rounds until nothing is left to remove; when to come back."""
    retention = engine.shared.retention
    before = -1
    while before != (before := sum(engine.store.counts.by_status().values())):
        following = await retention.run_once()
    return following


@pytest.mark.parametrize(("finish", "minutes"), [(completed, 10), (dead, 20), (cancelled, 30)])
async def test_each_ending_has_its_own_time(
    engine: Engine, settler: Settler, hand_clock: HandClock, finish: Ending, minutes: int
) -> None:
    job_id = await finish(engine, settler)
    gone_at = hand_clock.now + minutes * MINUTE
    hand_clock.advance(minutes * MINUTE - 5_000)
    assert await clean(engine) == gone_at
    assert await is_kept(engine, job_id)
    hand_clock.advance(5_000)
    assert await clean(engine) is None
    assert not await is_kept(engine, job_id)


async def test_all_that_belongs_to_a_job_goes_with_it(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    job_id = await completed(engine, settler)
    hand_clock.advance(HOUR)
    await clean(engine)
    assert await engine.store.attempts(job_id) == []
    assert await engine.store.log(job_id, 1) is None
    assert sum(engine.store.counts.by_status().values()) == 0


async def test_unfinished_jobs_stay(engine: Engine, hand_clock: HandClock) -> None:
    waiting = await submit(engine, delay=HOUR)
    held = await claim_new(engine)
    hand_clock.advance(100 * 24 * HOUR)
    assert await clean(engine) is None
    assert await is_kept(engine, waiting.id)
    assert await is_kept(engine, held.lease.job_id)


async def keyed_and_finished(engine: Engine, settler: Settler) -> Job:
    job = await submit(engine, idempotency_key="once")
    (claimed,) = await claim(engine)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.COMPLETED))])
    return job


async def test_a_job_stays_as_long_as_its_key(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    job = await keyed_and_finished(engine, settler)
    hand_clock.advance(HOUR - 1)
    await clean(engine)
    again = await engine.submit(Submission(type="quick", idempotency_key="once"))
    assert (again.replayed, again.job.id) == (True, job.id)
    hand_clock.advance(1)
    await clean(engine)
    assert not await is_kept(engine, job.id)
    assert not (await engine.submit(Submission(type="quick", idempotency_key="once"))).replayed


async def test_a_key_that_outlives_the_retention_is_not_polled_for(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    job = await keyed_and_finished(engine, settler)
    hand_clock.advance(15 * MINUTE)
    assert await clean(engine) == job.created_at + HOUR


async def test_a_batch_goes_with_its_last_job(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    batch_id, (first, second) = await engine.submit_batch([Submission(type="quick")] * 2, None)
    await engine.cancel(first.job.id)
    hand_clock.advance(HOUR)
    await clean(engine)
    assert (await engine.batch(batch_id)).counts == {"pending": 1}
    await engine.cancel(second.job.id)
    hand_clock.advance(HOUR)
    await clean(engine)
    with pytest.raises(NotFound):
        await engine.batch(batch_id)


async def test_it_looks_at_least_every_hour(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    await dead(engine, settler)
    hand_clock.advance(-10 * HOUR)
    assert await clean(engine) == hand_clock.now + HOUR


LONG_QUIET = 3_000
GO = Cleared(100, BUSY_SECONDS)


def test_deleting_takes_a_small_share_while_others_write(hand_clock: HandClock) -> None:
    pace = Pace(commits=10)
    hand_clock.advance(LONG_QUIET)
    pace.look(12, own=1)
    rest = pace.rest(GO)
    assert GO.seconds * 1000 / rest < 0.1
    hand_clock.advance(1_000)
    pace.look(13, own=1)
    assert pace.rest(GO) == rest
    assert pace.seconds == BUSY_SECONDS
    assert pace.rest(Cleared(100, 60.0)) < 1_000


def test_deleting_does_not_rest_when_nobody_else_writes(hand_clock: HandClock) -> None:
    pace = Pace(commits=10)
    hand_clock.advance(LONG_QUIET)
    pace.look(11, own=1)
    assert pace.rest(GO) == 0
    assert pace.seconds == QUIET_SECONDS
    pace.look(12, own=0)
    assert pace.rest(GO) > 0
    assert pace.seconds == BUSY_SECONDS


def test_it_deletes_as_many_at_once_as_there_is_time_for(hand_clock: HandClock) -> None:
    pace = Pace(commits=0)
    assert pace.most == FEWEST
    pace.fit(Cleared(FEWEST, BUSY_SECONDS / 100))
    assert pace.most == 2 * FEWEST
    pace.fit(Cleared(2 * FEWEST, 1.0))
    assert pace.most == FEWEST
    hand_clock.advance(LONG_QUIET)
    for _ in range(20):
        pace.fit(Cleared(1, 1e-9))
    assert pace.most == MOST


async def test_a_round_deletes_a_few_and_comes_back(engine: Engine, hand_clock: HandClock) -> None:
    for _ in range(FEWEST + 5):
        await engine.cancel((await submit(engine)).id)
    hand_clock.advance(HOUR)
    before = engine.store.commits
    following = await engine.shared.retention.run_once()
    assert following is not None
    assert hand_clock.now <= following < hand_clock.now + 1_000
    assert engine.store.counts.by_status()["cancelled"] == 5
    assert engine.store.commits == before + 1


async def test_what_is_kept_is_told(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    await completed(engine, settler)
    first = clock.rfc3339(hand_clock.now)
    hand_clock.advance(MINUTE)
    await completed(engine, settler)
    await dead(engine, settler)
    figures = await engine.shared.retention.figures()
    kept = figures["retention"]
    assert isinstance(kept, dict)
    assert kept["next_deletion_at"] == clock.rfc3339(hand_clock.now + 9 * MINUTE)
    outcomes = kept["outcomes"]
    assert outcomes["completed"] == {"keep_seconds": 600, "jobs": 2, "oldest_finished_at": first}
    assert outcomes["dead"]["oldest_finished_at"] == clock.rfc3339(hand_clock.now)
    assert outcomes["expired"] == {"keep_seconds": 1800, "jobs": 0, "oldest_finished_at": None}
