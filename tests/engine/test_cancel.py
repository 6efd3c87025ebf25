"""Cancelling by filter: who is told, what is counted, what is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jobqueued.engine import cancel as subject
from jobqueued.engine.service import Engine
from jobqueued.executors.interface import StopReason
from jobqueued.model.job import CANCELLABLE, WAITING, Status
from jobqueued.model.submission import Cancelled, JobQuery
from tests.engine.support import claim_new, settle_down, submit, take_up


async def cancel(engine: Engine, *, dry_run: bool = False, **query: Any) -> Cancelled:
    """One call."""
    given = {"statuses": tuple(sorted(WAITING)), "before_id": engine.boundary()} | query
    return await engine.cancel_some(JobQuery(**given), dry_run=dry_run)


async def test_waiting_jobs_are_cancelled_and_those_who_wait_for_them_hear_of_it(
    engine: Engine,
) -> None:
    jobs = [await submit(engine, "quick"), await submit(engine, "quick", delay=60_000)]
    other = await submit(engine, "other")
    waiting = asyncio.create_task(engine.wait(jobs[0].id, 60))
    await settle_down()
    done = await cancel(engine, type="quick")
    assert (done.count, sorted(done.ids), done.stopping, done.more) == (
        2,
        sorted(job.id for job in jobs),
        0,
        False,
    )
    assert (await waiting).status is Status.CANCELLED
    assert (await engine.job(other.id)).status is Status.PENDING
    assert engine.shared.meter.totals["cancelled"] == 2


async def test_running_jobs_are_told_only_when_asked_for(engine: Engine) -> None:
    running = take_up(engine, await claim_new(engine))
    kind = running.claimed.type
    assert (await cancel(engine, type=kind)).count == 0
    assert not running.task.stop.asked.is_set()
    done = await cancel(engine, type=kind, statuses=tuple(sorted(CANCELLABLE)))
    assert (done.count, done.stopping) == (1, 1)
    assert running.task.stop.reason is StopReason.CANCELLED
    assert engine.shared.meter.totals["cancelled"] == 0


async def test_step_by_step_until_all_that_were_there_are_done(engine: Engine) -> None:
    jobs = {(await submit(engine, "quick", key="k")).id for _ in range(5)}
    queries: list[dict[str, Any]] = [{"type": "quick"}, {"key": "k"}]
    for query in queries:
        counted = await cancel(engine, dry_run=True, **query)
        assert (counted.count, set(counted.ids), counted.more) == (5, jobs, False)
        cursor, done, more = counted.cursor, set[str](), True
        later = await submit(engine, "quick", key="k")
        while more:
            step = await cancel(engine, limit=2, before_id=cursor, **query)
            cursor, more = step.cursor, step.more
            assert not done & set(step.ids)
            done |= set(step.ids)
        assert done == jobs
        assert (await engine.job(later.id)).status is Status.PENDING
        jobs = {later.id, *[(await submit(engine, "quick", key="k")).id for _ in range(4)]}


async def test_a_dry_run_changes_nothing_and_counts_to_a_bound(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MOST_COUNTED", 3)
    for expected, more in ((1, False), (2, False), (3, False), (3, True)):
        await submit(engine, "quick")
        counted = await cancel(engine, dry_run=True, type="quick", limit=2)
        assert (counted.count, counted.more) == (expected, more)
        assert len(counted.ids) == min(2, expected)
    assert engine.store.counts.of("quick", "pending") == 4
