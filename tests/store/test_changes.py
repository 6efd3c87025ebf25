"""Cancelling, hurrying, promoting, expiring and forgetting jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jobqueued.model.job import TERMINAL, Status
from jobqueued.store.interface import Retained, Store
from tests.store.support import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    end,
    finished,
    new_job,
    put,
    remove,
    running,
    status_of,
    take,
)

KEEP = Retained({str(status): HOUR for status in TERMINAL}, idempotency_window=DAY)


async def retrying(store: Store, **fields: Any) -> str:
    return await finished(store, Status.RETRYING, **fields)


async def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    waiting = [(await put(store)).id, (await put(store, delay=HOUR)).id]
    assert [await store.cancel(job_id, NOW + 1) for job_id in waiting] == ["pending", "scheduled"]
    again = await retrying(store)
    assert await store.cancel(again, NOW + 1) == "retrying"
    for job_id in (*waiting, again):
        job = await store.job(job_id)
        assert job is not None
        assert (job.status, job.finished_at) == (Status.CANCELLED, NOW + 1)
    assert store.counts.by_type() == {"mail": {"cancelled": 3}}
    assert await take(store, workers=9) == []


async def test_a_running_job_is_only_marked(store: Store) -> None:
    claimed = await running(store)
    job_id = claimed.lease.job_id
    assert await store.cancel(job_id, NOW) == "processing"
    assert await status_of(store, job_id) == Status.PROCESSING
    assert [held.cancel_requested for held in await store.held_by_daemon()] == [True]
    assert await end(store, claimed, Status.CANCELLED)
    assert await status_of(store, job_id) == Status.CANCELLED


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.DEAD, Status.CANCELLED])
async def test_a_finished_job_stays_as_it_is(store: Store, status: Status) -> None:
    job_id = await finished(store, status)
    before = await store.job(job_id)
    assert await store.cancel(job_id, NOW + 1) == status
    assert await store.run_now(job_id, NOW + 1) == status
    assert await store.job(job_id) == before


async def test_run_now_does_not_wait(store: Store) -> None:
    scheduled, again = (await put(store, delay=HOUR)).id, await retrying(store)
    assert await store.run_now(scheduled, NOW + 1) == "scheduled"
    assert await store.run_now(again, NOW + 2) == "retrying"
    assert await store.run_now(again, NOW + 3) == "pending"
    taken = await take(store, workers=2, now=NOW + 3)
    assert [claimed.lease.job_id for claimed in taken] == [scheduled, again]
    assert await store.run_now(again, NOW + 4) == "processing"
    job = await store.job(again)
    assert job is not None
    assert job.run_at == NOW + 2


async def test_due_jobs_become_pending_in_their_order(store: Store) -> None:
    late, early, far = [await put(store, delay=delay) for delay in (20, 10, HOUR)]
    assert await store.next_due() == NOW + 10
    assert await store.promote(NOW + 9) == 0
    assert await store.promote(NOW + 20) == 2
    assert await store.next_due() == NOW + HOUR
    taken = await take(store, workers=3, now=NOW + 20)
    assert [claimed.lease.job_id for claimed in taken] == [early.id, late.id]
    assert await status_of(store, far.id) == Status.SCHEDULED


async def test_a_retry_comes_back_when_its_wait_is_over(store: Store) -> None:
    job_id = await retrying(store)
    assert await store.next_due() == NOW + 60 * SECOND
    assert await store.promote(NOW + 60 * SECOND) == 1
    assert await status_of(store, job_id) == Status.PENDING


async def test_promoting_is_bounded(store: Store) -> None:
    await store.submit([new_job(delay=1) for _ in range(700)], batch_id=None, window=DAY)
    first, second = await store.promote(NOW + 1), await store.promote(NOW + 1)
    assert first < 700
    assert first + second == 700
    assert await store.promote(NOW + 1) == 0


async def test_waiting_jobs_expire(store: Store) -> None:
    fields: dict[str, Any] = {"expires_at": NOW + SECOND}
    again = await retrying(store, **fields)
    waiting = [await put(store, **fields), await put(store, delay=HOUR, **fields)]
    await put(store, expires_at=NOW + SECOND + 1)
    assert await store.next_due() == NOW + SECOND
    assert await store.expire(NOW + SECOND - 1) == []
    expired = await store.expire(NOW + SECOND)
    assert sorted(expired) == sorted([again, *(job.id for job in waiting)])
    for job_id in expired:
        job = await store.job(job_id)
        assert job is not None
        assert (job.status, job.finished_at) == (Status.EXPIRED, NOW + SECOND)
    assert store.counts.by_type() == {"mail": {"expired": 3, "pending": 1}}
    assert await store.next_due() == NOW + SECOND + 1


async def test_what_runs_or_is_over_does_not_expire(store: Store) -> None:
    await finished(store, expires_at=NOW + 1)
    await running(store, expires_at=NOW + 1)
    assert await store.next_due() is None
    assert await store.expire(NOW + DAY) == []


async def test_expiring_is_bounded(store: Store) -> None:
    many = [new_job(expires_at=NOW + 1) for _ in range(700)]
    await store.submit(many, batch_id=None, window=DAY)
    first, second = await store.expire(NOW + 1), await store.expire(NOW + 1)
    assert len(first) < 700
    assert {*first, *second} == {job.id for job in many}


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.DEAD, Status.CANCELLED])
async def test_finished_jobs_go_with_all_they_had(store: Store, status: Status) -> None:
    job_id = await finished(store, status, outcome={"log": b"text", "result": b"1"})
    assert await store.next_outlived(KEEP) == NOW + HOUR
    assert await remove(store, KEEP, NOW + HOUR - 1) == 0
    assert await remove(store, KEEP, NOW + HOUR) == 1
    assert await store.job(job_id) is None
    assert await store.attempts(job_id) == []
    assert await store.log(job_id, 1) is None
    assert store.counts.by_type() == {}
    assert await store.next_outlived(KEEP) is None


async def test_each_status_has_its_own_retention(store: Store) -> None:
    await finished(store, Status.DEAD)
    completed = await finished(store)
    keep = Retained({"completed": HOUR, "dead": DAY}, idempotency_window=0)
    assert await store.next_outlived(keep) == NOW + HOUR
    assert await remove(store, keep, NOW + HOUR) == 1
    assert await store.job(completed) is None
    assert await store.next_outlived(keep) == NOW + DAY


async def test_what_is_not_over_is_never_forgotten(store: Store) -> None:
    await put(store)
    await put(store, delay=HOUR)
    await retrying(store, job_type="image")
    await running(store, "image", priority=9)
    assert await remove(store, KEEP, NOW + 999 * DAY) == 0
    assert store.counts.waiting == 3


async def test_a_job_stays_as_long_as_its_key_is_taken(store: Store) -> None:
    job_id = await finished(store, idempotency_key="k")
    assert await remove(store, KEEP, NOW + DAY - 1) == 0
    assert (await put(store, idempotency_key="k", now=NOW + DAY - 1)).id == job_id
    assert await remove(store, KEEP, NOW + DAY) == 1
    assert (await put(store, idempotency_key="k", now=NOW + DAY)).id != job_id


async def test_removal_is_never_announced_for_a_time_that_has_passed(store: Store) -> None:
    """Or retention would ask again and again for as long as the key's window runs."""
    await finished(store, idempotency_key="k")
    assert await remove(store, KEEP, NOW + HOUR) == 0
    following = await store.next_outlived(KEEP)
    assert following is not None
    assert following > NOW + HOUR


async def test_a_key_that_went_to_a_newer_job_stays_with_it(store: Store) -> None:
    await finished(store, idempotency_key="k")
    newer = await put(store, idempotency_key="k", now=NOW + DAY)
    assert await remove(store, KEEP, NOW + 2 * DAY) == 1
    assert await put(store, idempotency_key="k", now=NOW + 2 * DAY) == newer


async def test_a_batch_goes_with_its_last_job(store: Store) -> None:
    jobs = [new_job(batch_id="b") for _ in range(2)]
    await store.submit(jobs, batch_id="b", window=DAY)
    first, second = await take(store, workers=2)
    await end(store, first, at=NOW)
    await end(store, second, at=NOW + 1)
    await remove(store, KEEP, NOW + HOUR)
    assert await store.batch("b") is not None
    await remove(store, KEEP, NOW + HOUR + 1)
    assert await store.batch("b") is None


async def test_a_batch_without_a_new_job_goes_too(store: Store) -> None:
    await finished(store, idempotency_key="k")
    replay = [new_job(idempotency_key="k", batch_id="b")]
    await store.submit(replay, batch_id="b", window=DAY)
    await remove(store, KEEP, NOW + 2 * DAY)
    assert await store.batch("b") is None


async def test_forgetting_is_bounded(store: Store) -> None:
    many = [new_job(expires_at=NOW + 1 if number % 2 else None) for number in range(700)]
    await store.submit(many, batch_id=None, window=DAY)
    await asyncio.gather(*(store.cancel(job.id, NOW) for job in many[::2]))
    assert len(await store.expire(NOW + 1)) == 350
    assert await remove(store, KEEP, NOW + DAY, most=600) == 600
    assert await remove(store, KEEP, NOW + DAY, most=600) == 100
    assert await remove(store, KEEP, NOW + DAY, most=600) == 0
