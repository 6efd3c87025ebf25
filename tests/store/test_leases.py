"""Only the attempt that holds the lease writes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from jobqueued.model.job import MAX_ERROR, TERMINAL, Claimed, Lease, Progress, Status
from jobqueued.model.retry import Next
from jobqueued.store.interface import Retained, Store
from tests.store.support import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    Opener,
    end,
    ending,
    finished,
    new_job,
    put,
    remove,
    running,
    take,
)

ENDS = [Status.COMPLETED, Status.CANCELLED, Status.PENDING, Status.RETRYING, Status.DEAD]
RUN_AT = {Status.PENDING: NOW + 5, Status.RETRYING: NOW + 5 + 60 * SECOND}


async def lost(store: Store) -> Claimed:
    """A lease that another attempt of the same job has taken over."""
    claimed = await running(store)
    await end(store, claimed, Status.PENDING)
    await take(store)
    return claimed


def forged(claimed: Claimed, **changes: str) -> Claimed:
    return msgspec.structs.replace(claimed, lease=msgspec.structs.replace(claimed.lease, **changes))


@pytest.mark.parametrize("status", ENDS)
async def test_an_attempt_ends_where_it_is_told_to(store: Store, status: Status) -> None:
    claimed = await running(store)
    assert await end(store, claimed, status, at=NOW + 5)
    job = await store.job(claimed.lease.job_id)
    assert job is not None
    assert (job.status, job.lease_expires_at, job.worker) == (status, None, "w0")
    assert job.finished_at == (NOW + 5 if job.is_terminal else None)
    assert job.run_at == RUN_AT.get(status, NOW)
    assert store.counts.by_type() == {"mail": {str(status): 1}}


@pytest.mark.parametrize("status", ENDS)
async def test_a_job_asked_to_cancel_does_not_run_again(store: Store, status: Status) -> None:
    claimed = await running(store)
    await store.cancel(claimed.lease.job_id, NOW)
    expected = status if status in TERMINAL else Status.CANCELLED
    assert await end(store, claimed, status, at=NOW + 5) == expected
    job = await store.job(claimed.lease.job_id)
    assert job is not None
    assert (job.status, job.finished_at) == (expected, NOW + 5)
    assert store.counts.by_type() == {"mail": {str(expected): 1}}


@pytest.mark.parametrize("status", ENDS)
async def test_no_attempt_ends_twice(store: Store, status: Status) -> None:
    claimed = await running(store)
    assert await end(store, claimed, status)
    before = await store.job(claimed.lease.job_id)
    for late in ENDS:
        assert not await end(store, claimed, late, at=NOW + 9, error="late", result=b"9", log=b"9")
    assert await store.job(claimed.lease.job_id) == before
    assert len(await store.attempts(claimed.lease.job_id)) == 1
    assert await store.log(claimed.lease.job_id, 1) is None


async def test_one_lost_lease_does_not_hold_up_the_others(store: Store) -> None:
    stale = await lost(store)
    first, second = await running(store, "image"), await running(store, "image")
    made_up = forged(first, token="made up")
    ended = await store.settle([ending(each) for each in (first, stale, made_up, second)])
    assert ended == [Status.COMPLETED, None, None, Status.COMPLETED]
    assert store.counts.by_type() == {"mail": {"processing": 1}, "image": {"completed": 2}}


async def test_the_same_lease_twice_in_one_go_counts_once(store: Store) -> None:
    claimed = await running(store)
    ended = await store.settle([ending(claimed), ending(claimed, Status.DEAD)])
    assert ended == [Status.COMPLETED, None]
    assert store.counts.by_type() == {"mail": {"completed": 1}}


@pytest.mark.parametrize("job_id", ["", "not an id", "01a31d82-ac00-7000-9035-68f43a3b535e"])
async def test_a_lease_on_no_job_is_lost(store: Store, job_id: str) -> None:
    claimed = forged(await running(store), job_id=job_id)
    assert not await end(store, claimed)
    assert await store.extend([claimed.lease], [NOW + DAY]) == [False]
    assert not await store.report_progress(claimed.lease, Progress(1.0))


async def test_a_lost_lease_changes_nothing(store: Store) -> None:
    stale = await lost(store)
    before = await store.job(stale.lease.job_id)
    assert await store.extend([stale.lease], [NOW + DAY]) == [False]
    assert not await store.report_progress(stale.lease, Progress(50.0, "half"))
    assert not await end(store, stale)
    assert await store.job(stale.lease.job_id) == before


async def test_a_lost_lease_does_not_write_over_the_log(store: Store) -> None:
    claimed = await running(store)
    await end(store, claimed, log=b"all of it")
    await store.keep_log(claimed.lease, b"half of")
    assert await store.log(claimed.lease.job_id, 1) == b"all of it"


async def test_no_log_without_a_job(store: Store) -> None:
    claimed = await running(store)
    await end(store, claimed)
    await remove(store, Retained({"completed": 0}, idempotency_window=0), NOW)
    await store.keep_log(claimed.lease, b"late")
    assert await store.log(claimed.lease.job_id, 1) is None


async def test_leases_move_on_but_never_back(store: Store) -> None:
    first, second = await running(store), await running(store)
    assert await store.next_lease_expiry() == NOW + HOUR
    later = [NOW + 2 * HOUR, NOW + SECOND]
    assert await store.extend([first.lease, second.lease], later) == [True, True]
    expiries = [(await store.job(each.lease.job_id)) for each in (first, second)]
    assert [job and job.lease_expires_at for job in expiries] == [NOW + 2 * HOUR, NOW + HOUR]


async def test_progress_is_shown_until_the_next_attempt(store: Store) -> None:
    claimed = await running(store)
    job_id = claimed.lease.job_id
    for progress in (Progress(40.5, "resizing"), Progress(100.0)):
        assert await store.report_progress(claimed.lease, progress)
        job = await store.job(job_id)
        assert job is not None
        assert job.progress == progress
    await end(store, claimed, Status.PENDING)
    await take(store)
    again = await store.job(job_id)
    assert again is not None
    assert again.progress is None


async def test_a_log_grows_while_the_attempt_runs(store: Store) -> None:
    claimed = await running(store)
    for output in (b"one\n", b"one\ntwo\n"):
        await store.keep_log(claimed.lease, output)
        assert await store.log(claimed.lease.job_id, 1) == output
    await end(store, claimed, log=b"all")
    assert await store.log(claimed.lease.job_id, 1) == b"all"


async def test_a_log_kept_before_a_crash_survives_the_settlement(store: Store) -> None:
    claimed = await running(store)
    await store.keep_log(claimed.lease, b"last words")
    await end(store, claimed, Status.RETRYING)
    assert await store.log(claimed.lease.job_id, 1) == b"last words"


async def test_long_errors_are_bounded(store: Store) -> None:
    job_id = await finished(store, Status.DEAD, outcome={"error": "x" * (MAX_ERROR + 1)})
    job = await store.job(job_id)
    [attempt] = await store.attempts(job_id)
    assert job is not None
    assert job.last_error == attempt.error == "x" * MAX_ERROR


async def test_the_last_failure_is_remembered_through_an_interruption(store: Store) -> None:
    claimed = await running(store)
    job_id = claimed.lease.job_id
    await end(store, claimed, Status.RETRYING, error="no luck")
    await store.run_now(job_id, NOW)
    [again] = await take(store)
    await end(store, again, Status.PENDING)
    job = await store.job(job_id)
    assert job is not None
    assert job.last_error == "no luck"


async def test_what_a_daemon_ran_is_known_to_the_next(opener: Opener) -> None:
    store = await opener()
    first, second = await running(store), await running(store, "image", max_retries=7)
    await store.cancel(second.lease.job_id, NOW)
    await finished(store, job_type="other")
    await store.close()
    again = await opener()
    held = sorted(await again.held_by_daemon(), key=lambda each: each.lease.job_id)
    assert [each.lease for each in held] == [first.lease, second.lease]
    assert [(each.type, each.max_retries) for each in held] == [("mail", 3), ("image", 7)]
    assert [each.cancel_requested for each in held] == [False, True]
    assert await end(again, first) == Status.COMPLETED
    await again.close()


async def test_losses_are_counted(store: Store) -> None:
    claimed = await running(store)
    settlement = msgspec.structs.replace(
        ending(claimed), next=Next(Status.PENDING, NOW, failures=1, losses=1)
    )
    assert await store.settle([settlement]) == [Status.PENDING]
    [again] = await take(store)
    assert (again.failures, again.losses, again.lease.attempt) == (1, 1, 2)


async def test_an_attempt_begins_after_the_one_before_it_had_ended(store: Store) -> None:
    """Also where it was asked for earlier, and waited while that was written."""
    claimed = await running(store)
    await put(store)
    _, taken = await asyncio.gather(
        end(store, claimed, Status.PENDING, at=NOW + SECOND), take(store, now=NOW, workers=2)
    )
    [again] = [one for one in taken if one.lease.attempt == 2]
    assert again.started_at == NOW + SECOND


async def test_leases_run_out_in_their_order(store: Store) -> None:
    leases: list[Lease] = []
    for lease in (30, 10, 20):
        await put(store)
        [claimed] = await take(store, lease=lease)
        leases.append(claimed.lease)
    assert await store.next_lease_expiry() == NOW + 10
    assert await store.expired_leases(NOW + 9) == []
    expired = await store.expired_leases(NOW + 20)
    assert [held.lease for held in expired] == [leases[1], leases[2]]
    await store.extend([leases[1]], [NOW + HOUR])
    assert await store.next_lease_expiry() == NOW + 20


async def test_looking_for_expired_leases_is_bounded(store: Store) -> None:
    await store.submit([new_job() for _ in range(700)], batch_id=None, window=DAY)
    assert len(await take(store, workers=700, room=700, lease=1)) == 700
    found = await store.expired_leases(NOW + 1)
    assert 0 < len(found) < 700


async def test_without_running_jobs_no_lease_runs_out(store: Store) -> None:
    await put(store)
    assert await store.next_lease_expiry() is None
    assert await store.held_by_daemon() == []
