"""What a store tells of its jobs, lists, batches, attempts and logs."""

from __future__ import annotations

from typing import Any

import pytest

from jobqueued.model.job import Attempt, Batch, Job, Status
from jobqueued.model.outcome import OutcomeKind
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Store
from tests.store.support import DAY, NOW, SECOND, end, finished, new_job, put, running, take


async def ids(store: Store, **query: Any) -> list[str]:
    return [job.id for job in (await store.jobs(JobQuery(**query))).jobs]


@pytest.fixture
async def mixed(store: Store) -> dict[str, Job]:
    """Jobs that differ in everything a list can ask for, by name."""
    labels: dict[str, dict[str, Any]] = {
        "plain": {},
        "image": {"job_type": "image"},
        "traced": {"correlation_id": "trace", "now": NOW + 1},
        "keyed": {"key": "customer", "now": NOW + 2},
        "once": {"idempotency_key": "order", "now": NOW + 3},
        "later": {"delay": SECOND, "now": NOW + 4},
    }
    jobs = {name: await put(store, **fields) for name, fields in labels.items()}
    batch = [new_job(batch_id="b", now=NOW + 5)]
    [jobs["batched"]] = [each.job for each in await store.submit(batch, batch_id="b", window=DAY)]
    await store.cancel(jobs["plain"].id, NOW)
    return jobs


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, "plain image traced keyed once later batched"),
        ({"statuses": ("cancelled",)}, "plain"),
        ({"statuses": ("cancelled", "scheduled")}, "plain later"),
        ({"statuses": ("dead",)}, ""),
        ({"statuses": ("pending",), "type": "mail"}, "traced keyed once batched"),
        ({"type": "image"}, "image"),
        ({"type": "unknown"}, ""),
        ({"batch_id": "b"}, "batched"),
        ({"correlation_id": "trace"}, "traced"),
        ({"idempotency_key": "order"}, "once"),
        ({"key": "customer"}, "keyed"),
        ({"created_after": NOW + 3}, "later batched"),
        ({"created_before": NOW + 1}, "plain image"),
        ({"created_after": NOW, "created_before": NOW + 3}, "traced keyed"),
        ({"key": "customer", "correlation_id": "trace"}, ""),
    ],
)
async def test_every_filter_finds_what_it_names(
    store: Store, mixed: dict[str, Job], query: dict[str, Any], names: str
) -> None:
    wanted = [mixed[name].id for name in reversed(names.split())]
    assert await ids(store, **query) == wanted


@pytest.mark.parametrize("statuses", [(), ("pending",), ("pending", "scheduled")])
async def test_pages_meet_without_gap_or_overlap(store: Store, statuses: tuple[str, ...]) -> None:
    jobs = [new_job(delay=number % 2) for number in range(11)]
    await store.submit(jobs, batch_id=None, window=DAY)
    wanted = [job.id for job in reversed(jobs) if not statuses or job.status in statuses]
    found: list[str] = []
    cursor = None
    while True:
        page = await store.jobs(JobQuery(statuses=statuses, before_id=cursor, limit=3))
        found += [job.id for job in page.jobs]
        assert page.next_cursor == (found[-1] if len(found) < len(wanted) else None)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        assert len(page.jobs) == 3
    assert found == wanted


async def test_new_jobs_do_not_disturb_a_page_turned_later(store: Store) -> None:
    old = [await put(store) for _ in range(4)]
    first = await store.jobs(JobQuery(limit=2))
    await put(store)
    second = await store.jobs(JobQuery(limit=2, before_id=first.next_cursor))
    assert [*first.jobs, *second.jobs] == old[::-1]


async def test_jobs_that_are_not_there(store: Store) -> None:
    job = await put(store)
    twin = job.id[:-1] + ("0" if job.id[-1] != "0" else "1")
    for wrong in (twin, new_job().id, "", "x" * 36, job.id.upper() + "x", "00000000-0000-7"):
        assert await store.job(wrong) is None
        assert await store.attempts(wrong) == []
        assert await store.cancel(wrong, NOW) is None
        assert await store.run_now(wrong, NOW) is None
    assert await store.job(job.id) == job


async def test_a_batch_tells_how_far_it_is(store: Store) -> None:
    jobs = [new_job(batch_id="b") for _ in range(3)]
    await store.submit(jobs, batch_id="b", window=DAY)
    first, second = await take(store, workers=2)
    await end(store, first, at=NOW + 1)
    await end(store, second, Status.DEAD, at=NOW + 2)
    assert await store.batch("b") == Batch(
        batch_id="b",
        total=3,
        counts={"completed": 1, "dead": 1, "pending": 1},
        created_at=NOW,
        finished_at=None,
    )
    await store.cancel(jobs[2].id, NOW + 3)
    done = await store.batch("b")
    assert done is not None
    assert done.finished_at == NOW + 3
    assert await store.batch("other") is None


async def test_attempts_are_kept_in_order(store: Store) -> None:
    claimed = await running(store)
    job_id = claimed.lease.job_id
    await end(store, claimed, Status.RETRYING, at=NOW + 5, error="no luck", exit_code=3)
    await store.run_now(job_id, NOW + 6)
    [again] = await take(store, now=NOW + 7)
    use = {"max_rss_bytes": 4096, "cpu_ms": 12, "http_status": 200, "result": b"[1]"}
    await end(store, again, at=NOW + 9, **use)
    common: dict[str, Any] = {
        "worker": "w0",
        "http_status": None,
        "max_rss_bytes": None,
        "cpu_ms": None,
    }
    assert await store.attempts(job_id) == [
        Attempt(
            number=1, started_at=NOW, finished_at=NOW + 5, outcome=OutcomeKind.FAILED,
            error="no luck", exit_code=3, **common,
        ),
        Attempt(
            number=2, started_at=NOW + 7, finished_at=NOW + 9, outcome=OutcomeKind.COMPLETED,
            error=None, exit_code=None, worker="w0", http_status=200, max_rss_bytes=4096,
            cpu_ms=12,
        ),
    ]  # fmt: skip
    job = await store.job(job_id)
    assert job is not None
    assert (job.attempt, job.failures, job.result) == (2, 1, b"[1]")


async def test_each_attempt_has_a_log_of_its_own(store: Store) -> None:
    claimed = await running(store)
    job_id = claimed.lease.job_id
    await end(store, claimed, Status.PENDING, log=b"first\xff\n")
    [again] = await take(store)
    await end(store, again)
    assert await store.log(job_id, 1) == b"first\xff\n"
    assert await store.log(job_id, 2) is None
    assert await store.log(new_job().id, 1) is None


async def test_counts_follow_every_move(store: Store) -> None:
    await finished(store, Status.DEAD)
    await put(store, "image")
    await put(store, "image", delay=SECOND)
    await running(store)
    assert store.counts.by_type() == {
        "mail": {"dead": 1, "processing": 1},
        "image": {"pending": 1, "scheduled": 1},
    }
    assert (store.counts.waiting, store.counts.of("mail", "dead")) == (2, 1)
    assert {status: n for status, n in store.counts.by_status().items() if n} == {
        "dead": 1, "processing": 1, "pending": 1, "scheduled": 1,
    }  # fmt: skip
    assert store.disk_full is False


async def test_the_oldest_pending_job_is_the_one_that_could_run_longest(store: Store) -> None:
    assert await store.oldest_pending() is None
    await put(store, now=NOW + 5)
    await put(store, "image", now=NOW + 3, priority=1)
    await put(store, "image", now=NOW + 4)
    await put(store, now=NOW + 2, delay=SECOND)
    assert await store.oldest_pending() == NOW + 3
    await take(store, "image", workers=2)
    assert await store.oldest_pending() == NOW + 5
    await take(store)
    assert await store.oldest_pending() is None
