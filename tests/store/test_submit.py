"""Putting jobs into a store: all or none, and each idempotency key once."""

from __future__ import annotations

from typing import Any

import pytest

from jobqueued.model.errors import KeyReused
from jobqueued.model.job import Job, Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Store
from tests.store.support import (
    DAY,
    HOUR,
    NOW,
    Opener,
    end,
    finished,
    new_job,
    put,
    running,
    take,
)


async def stored(store: Store) -> list[Job]:
    return (await store.jobs(JobQuery(limit=500))).jobs


async def test_what_was_answered_is_what_is_read(store: Store) -> None:
    fields: dict[str, Any] = {
        "payload": b'{"n": 123456789012345678901234567890, "x": 1.10}',
        "priority": 9,
        "max_retries": 20,
        "expires_at": NOW + DAY,
        "idempotency_key": "order-1",
        "correlation_id": "trace",
        "key": "customer",
        "schedule": "nightly",
        "service": "shop",
        "tenant": "acme",
    }
    job = await put(store, "mail", delay=HOUR, **fields)
    assert await store.job(job.id) == job
    assert {name: getattr(job, name) for name in fields} == fields
    assert (job.status, job.created_at, job.run_at) == (Status.SCHEDULED, NOW, NOW + HOUR)
    assert (job.attempt, job.failures) == (0, 0)


async def test_a_job_that_may_run_at_once_is_pending(store: Store) -> None:
    job = await put(store)
    assert (job.status, job.started_at, job.finished_at) == (Status.PENDING, None, None)
    assert store.counts.by_type() == {"mail": {"pending": 1}}


async def test_what_was_answered_is_still_there_after_a_restart(opener: Opener) -> None:
    store = await opener()
    jobs = [await put(store, delay=number) for number in range(3)]
    await store.close()
    again = await opener()
    assert [await again.job(job.id) for job in jobs] == jobs
    assert again.counts.by_status() == {"pending": 1, "scheduled": 2}
    await again.close()


async def test_the_same_key_gives_the_same_job(store: Store) -> None:
    first = await put(store, idempotency_key="k", payload=b'{"a": 1, "b": [1.0]}')
    again = new_job(idempotency_key="k", payload=b'{"b":[1],"a":1}')
    [replay] = await store.submit([again], batch_id=None, window=DAY)
    assert (replay.job, replay.replayed) == (first, True)
    assert await stored(store) == [first]


async def test_a_replay_shows_the_job_as_it_is_now(store: Store) -> None:
    job_id = await finished(store, idempotency_key="k")
    [replay] = await store.submit([new_job(idempotency_key="k")], batch_id=None, window=DAY)
    assert (replay.job.id, replay.job.status) == (job_id, Status.COMPLETED)


@pytest.mark.parametrize(
    "other",
    [
        {"job_type": "image", "payload": b"1"},
        {"payload": b"2"},
        {"payload": b"true"},
        {"payload": b'"1"'},
    ],
)
async def test_a_key_belongs_to_one_piece_of_work(store: Store, other: dict[str, Any]) -> None:
    first = await put(store, idempotency_key="k", payload=b"1")
    with pytest.raises(KeyReused, match="'k'"):
        await put(store, idempotency_key="k", **other)
    assert await stored(store) == [first]


async def test_each_tenant_has_keys_of_its_own(store: Store) -> None:
    tenants = [None, "acme", "zeta"]
    jobs = [await put(store, idempotency_key="k", tenant=tenant) for tenant in tenants]
    assert len({job.id for job in jobs}) == 3
    again = [await put(store, idempotency_key="k", tenant=tenant) for tenant in tenants]
    assert again == jobs


async def test_a_key_is_free_when_its_window_is_over(store: Store) -> None:
    job_id = await finished(store, idempotency_key="k")
    within = await put(store, idempotency_key="k", now=NOW + HOUR - 1, window=HOUR)
    assert within.id == job_id
    after = await put(store, idempotency_key="k", now=NOW + HOUR, window=HOUR, payload=b"2")
    assert after.id != job_id
    again = await put(store, idempotency_key="k", now=NOW + HOUR, window=HOUR, payload=b"2")
    assert again.id == after.id


@pytest.mark.parametrize("delay", [0, 2 * HOUR])
async def test_a_key_is_taken_while_its_job_is_not_over(store: Store, delay: int) -> None:
    first = await put(store, idempotency_key="k", delay=delay)
    long_after = await put(store, idempotency_key="k", now=NOW + 9 * DAY, window=HOUR)
    assert long_after == first


async def test_a_running_job_keeps_its_key(store: Store) -> None:
    claimed = await running(store, idempotency_key="k")
    during = await put(store, idempotency_key="k", now=NOW + DAY, window=HOUR)
    assert during.id == claimed.lease.job_id
    await end(store, claimed, Status.RETRYING)
    waiting = await put(store, idempotency_key="k", now=NOW + DAY, window=HOUR)
    assert waiting.id == claimed.lease.job_id


async def test_a_batch_is_answered_in_order(store: Store) -> None:
    jobs = [new_job(priority=number, batch_id="b") for number in range(5)]
    placed = await store.submit(jobs, batch_id="b", window=DAY)
    assert [each.job.id for each in placed] == [job.id for job in jobs]
    assert not any(each.replayed for each in placed)
    batch = await store.batch("b")
    assert batch is not None
    assert (batch.total, batch.counts) == (5, {"pending": 5})


async def test_a_batch_may_name_a_key_twice(store: Store) -> None:
    jobs = [new_job(idempotency_key="k", batch_id="b") for _ in range(3)]
    placed = await store.submit(jobs, batch_id="b", window=DAY)
    assert [each.job.id for each in placed] == [jobs[0].id] * 3
    assert [each.replayed for each in placed] == [False, True, True]
    assert [job.id for job in await stored(store)] == [jobs[0].id]


async def test_a_batch_has_known_jobs_in_their_places(store: Store) -> None:
    known = await put(store, idempotency_key="k")
    jobs = [new_job(idempotency_key=key, batch_id="b") for key in ("a", "k", "c")]
    placed = await store.submit(jobs, batch_id="b", window=DAY)
    assert [each.job.id for each in placed] == [jobs[0].id, known.id, jobs[2].id]
    assert [each.replayed for each in placed] == [False, True, False]
    batch = await store.batch("b")
    assert batch is not None
    assert batch.counts == {"pending": 2}


@pytest.mark.parametrize("already_there", [True, False])
async def test_a_batch_with_one_used_key_leaves_nothing(store: Store, already_there: bool) -> None:
    first = new_job(idempotency_key="k", payload=b"1", batch_id="b")
    if already_there:
        await store.submit([first], batch_id=None, window=DAY)
    before = await stored(store)
    wrong = new_job(idempotency_key="k", payload=b"2", batch_id="b")
    jobs = [new_job(batch_id="b"), first, wrong][1 if already_there else 0 :]
    with pytest.raises(KeyReused, match=rf"jobs\[{len(jobs) - 1}\]"):
        await store.submit(jobs, batch_id="b", window=DAY)
    assert await stored(store) == before
    assert await store.batch("b") is None


async def test_deep_payloads_are_compared(store: Store) -> None:
    deep, deeper = (b"[" * n + b"]" * n for n in (127, 128))
    first = await put(store, idempotency_key="k", payload=deep)
    assert await put(store, idempotency_key="k", payload=deep + b" ") == first
    with pytest.raises(KeyReused):
        await put(store, idempotency_key="k", payload=deeper)


async def test_an_order_of_submissions_is_an_order_of_claims(store: Store) -> None:
    jobs = [await put(store) for _ in range(4)]
    taken = await take(store, workers=4)
    assert [claimed.lease.job_id for claimed in taken] == [job.id for job in jobs]
