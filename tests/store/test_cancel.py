"""Cancelling by filter: which jobs are found, counted and cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from jobqueued.model.ids import first_place, place_of
from jobqueued.model.job import CANCELLABLE, WAITING, Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Store
from tests.store.support import DAY, HOUR, NOW, finished, new_job, put, running, status_of, take

ALL = tuple(sorted(CANCELLABLE))


@pytest.fixture
async def mixed(store: Store) -> dict[str, str]:
    """Ids of jobs in every state and with every label, by name."""
    completed = await finished(store)
    dead = await finished(store, Status.DEAD)
    retrying = await finished(store, Status.RETRYING)
    processing = (await running(store, now=NOW + 1)).lease.job_id
    labels: dict[str, dict[str, Any]] = {
        "plain": {},
        "image": {"job_type": "image", "now": NOW + 2},
        "later": {"delay": HOUR, "now": NOW + 3},
        "traced": {"correlation_id": "trace", "now": NOW + 4},
        "keyed": {"key": "customer", "now": NOW + 5},
        "once": {"idempotency_key": "order", "now": NOW + 6},
    }
    ids = {name: (await put(store, **fields)).id for name, fields in labels.items()}
    batch = [new_job(batch_id="b", now=NOW + 7)]
    [placed] = await store.submit(batch, batch_id="b", window=DAY)
    ids |= {"completed": completed, "dead": dead, "retrying": retrying, "processing": processing}
    return ids | {"batched": placed.job.id}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, "plain image later traced keyed once batched retrying processing"),
        ({"statuses": tuple(WAITING)}, "plain image later traced keyed once batched retrying"),
        ({"statuses": ("processing",)}, "processing"),
        ({"statuses": ("scheduled", "retrying")}, "later retrying"),
        ({"type": "image"}, "image"),
        ({"type": "unknown"}, ""),
        ({"batch_id": "b"}, "batched"),
        ({"correlation_id": "trace"}, "traced"),
        ({"idempotency_key": "order"}, "once"),
        ({"key": "customer"}, "keyed"),
        ({"key": "customer", "statuses": ("scheduled",)}, ""),
        ({"key": "customer", "type": "image"}, ""),
        ({"created_after": NOW + 5}, "once batched"),
        ({"created_after": NOW + 1, "created_before": NOW + 4}, "image later"),
    ],
)
async def test_what_fits_is_found_and_counted(
    store: Store, mixed: dict[str, str], query: dict[str, Any], names: str
) -> None:
    wanted = JobQuery(**{"statuses": ALL} | query)
    found = await store.find_to_cancel(wanted)
    assert sorted(found) == sorted(mixed[name] for name in names.split())
    assert await store.count_to_cancel(wanted, 100) == len(found)
    assert await store.count_to_cancel(wanted, 2) == min(2, len(found))
    narrow: dict[str, Any] = {"statuses": ALL, "limit": 2} | query
    limited = await store.find_to_cancel(JobQuery(**narrow))
    assert len(limited) == min(2, len(found))
    assert set(limited) <= set(found)


async def test_those_of_a_label_come_newest_first_and_can_be_gone_through(store: Store) -> None:
    jobs = [await put(store, key="k", now=NOW + number) for number in range(5)]
    newest_first = [job.id for job in jobs][::-1]
    query: dict[str, Any] = {"statuses": ALL, "key": "k", "limit": 2}
    assert await store.find_to_cancel(JobQuery(**query)) == newest_first[:2]
    following = JobQuery(**query, before_id=newest_first[1])
    assert await store.find_to_cancel(following) == newest_first[2:4]


async def test_what_came_after_the_boundary_is_left_alone(store: Store) -> None:
    before = await put(store)
    boundary = new_job().id
    after = await put(store)
    found = await store.find_to_cancel(JobQuery(statuses=ALL, type="mail", before_id=boundary))
    assert found == [before.id]
    assert (place_of(after.id) or 0) > (place_of(boundary) or 0) >= first_place(NOW)


async def test_many_are_cancelled_in_one_go_and_the_counts_stay_right(store: Store) -> None:
    jobs = [new_job(priority=number % 3) for number in range(100)]
    await store.submit(jobs, batch_id=None, window=DAY)
    claimed = await take(store, workers=3)
    ids = [job.id for job in jobs]
    before = await store.cancel_many([*ids, "none", *ids[:1]], WAITING, NOW + 1)
    taken = {one.lease.job_id for one in claimed}
    expected: list[str | None] = ["processing" if job in taken else "pending" for job in ids]
    assert before == [*expected, None, expected[0]]
    assert store.counts.by_type() == {"mail": {"processing": 3, "cancelled": 97}}
    assert [held.cancel_requested for held in await store.held_by_daemon()] == [False] * 3
    assert await take(store, workers=9) == []
    for job_id in set(ids) - taken:
        job = await store.job(job_id)
        assert job is not None
        assert (job.status, job.finished_at) == (Status.CANCELLED, NOW + 1)


async def test_running_ones_are_marked_once(store: Store) -> None:
    job_id = (await running(store)).lease.job_id
    query = JobQuery(statuses=("processing",), type="mail")
    assert await store.find_to_cancel(query) == [job_id]
    assert await store.cancel_many([job_id], CANCELLABLE, NOW) == ["processing"]
    assert await status_of(store, job_id) == Status.PROCESSING
    assert await store.find_to_cancel(query) == []
    assert await store.count_to_cancel(query, 10) == 0
