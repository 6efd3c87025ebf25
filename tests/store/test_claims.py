"""Which jobs go next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobqueued.model.control import Room
from jobqueued.model.errors import DamagedDatabase, JobqueuedError
from jobqueued.model.ids import place_of
from jobqueued.model.job import Claimed, Job, Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Ask, Store
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import (
    DAY,
    HOUR,
    NOW,
    Opener,
    asking,
    beside,
    end,
    new_job,
    put,
    running,
    status_of,
    take,
)


def ids(claimed: list[Claimed]) -> list[str]:
    return [each.lease.job_id for each in claimed]


async def fill(store: Store, job_type: str, count: int, **fields: int) -> list[Job]:
    jobs = [new_job(job_type, **fields) for _ in range(count)]
    return [each.job for each in await store.submit(jobs, batch_id=None, window=DAY)]


async def test_a_worker_gets_all_it_needs(store: Store) -> None:
    fields: dict[str, Any] = {
        "correlation_id": "trace",
        "key": "customer",
        "tenant": "acme",
        "priority": 7,
    }
    job = await put(store, payload=b'{"n":1.10}', max_retries=4, **fields)
    [claimed] = await store.claim([Ask("pool", ["w7"], {"mail": Room(1, 30)}, 0)], NOW + 5)
    assert (claimed.payload, claimed.payload_intact) == (b'{"n":1.10}', True)
    assert {name: getattr(claimed, name) for name in fields} == fields
    assert (claimed.type, claimed.max_retries, claimed.failures) == ("mail", 4, 0)
    assert (claimed.pool, claimed.worker, claimed.started_at) == ("pool", "w7", NOW + 5)
    assert (claimed.lease.job_id, claimed.lease.attempt) == (job.id, 1)
    now = await store.job(job.id)
    assert now is not None
    assert (now.status, now.attempt, now.worker) == (Status.PROCESSING, 1, "w7")
    assert (now.started_at, now.lease_expires_at) == (NOW + 5, NOW + 35)


async def test_no_two_leases_are_alike(store: Store) -> None:
    claimed = await running(store)
    await end(store, claimed, Status.PENDING)
    [again] = await take(store)
    assert again.lease.attempt == 2
    assert again.lease.token != claimed.lease.token


async def test_the_highest_priority_goes_first_across_types(store: Store) -> None:
    jobs = [
        await put(store, job_type, priority=priority)
        for priority, job_type in (
            (1, "mail"),
            (9, "image"),
            (5, "mail"),
            (7, "image"),
            (0, "mail"),
        )
    ]
    order = sorted(jobs, key=lambda job: -job.priority)
    assert ids(await take(store, "mail", "image", workers=5)) == [job.id for job in order]


async def test_first_come_first_served_within_a_type(store: Store) -> None:
    jobs = await fill(store, "mail", 20)
    found = [*await take(store, workers=7), *await take(store, workers=20)]
    assert ids(found) == [job.id for job in jobs]


async def test_waiting_counts_from_when_a_job_could_run(store: Store) -> None:
    due_later = await put(store, delay=50)
    since_then = await put(store, now=NOW + 60)
    before = await put(store, now=NOW + 40)
    await store.promote(NOW + 60)
    wanted = [before.id, due_later.id, since_then.id]
    assert ids(await take(store, workers=3, now=NOW + 60)) == wanted


async def test_among_equals_the_type_with_the_fewest_running_goes(store: Store) -> None:
    await fill(store, "mail", 10)
    await take(store, "mail", workers=3)
    await fill(store, "image", 10)
    found = await take(store, "mail", "image", workers=5)
    assert [claimed.type for claimed in found[:3]] == ["image"] * 3
    assert Counter(claimed.type for claimed in found[3:]) == {"mail": 1, "image": 1}


async def test_among_equals_with_as_many_running_the_longest_waiting_goes(store: Store) -> None:
    await fill(store, "image", 2, now=NOW + 1)
    await fill(store, "mail", 2, now=NOW)
    found = await take(store, "image", "mail", workers=4, now=NOW + 1)
    assert [claimed.type for claimed in found] == ["mail", "image", "mail", "image"]


async def test_one_claim_in_ten_goes_to_the_longest_waiting(store: Store) -> None:
    low = await fill(store, "mail", 10, priority=0)
    await fill(store, "image", 100, priority=9, now=NOW + 1)
    found = await take(store, "mail", "image", workers=50, now=NOW + 1)
    assert [number for number, each in enumerate(found) if each.type == "mail"] == [
        9, 19, 29, 39, 49,
    ]  # fmt: skip
    assert ids([each for each in found if each.type == "mail"]) == [job.id for job in low[:5]]


async def test_the_guard_counts_on_over_many_small_claims(store: Store) -> None:
    await fill(store, "mail", 10, priority=0)
    await fill(store, "image", 50, priority=9, now=NOW + 1)
    found: list[Claimed] = []
    for turn in range(40):
        found += await take(store, "mail", "image", turn=turn, now=NOW + 1)
    assert Counter(each.type for each in found) == {"image": 36, "mail": 4}


async def test_the_guard_looks_at_every_lane_of_a_type(store: Store) -> None:
    await put(store, priority=3, now=NOW + 5)
    oldest = await put(store, priority=1, now=NOW)
    await put(store, priority=9, now=NOW + 9)
    assert ids(await take(store, turn=9, now=NOW + 9)) == [oldest.id]


async def test_an_older_backlog_of_better_priority_does_not_take_the_share(store: Store) -> None:
    await fill(store, "mail", 100, priority=9)
    low = await fill(store, "mail", 3, priority=0, now=NOW + 2)
    middle = await fill(store, "image", 1, priority=5, now=NOW + 3)
    found = ids(await take(store, "mail", "image", workers=50, now=NOW + 3))
    wanted = [job.id for job in [*low, *middle]]
    assert [found[turn] for turn in (9, 19, 29, 39)] == wanted
    assert found[49] not in wanted


async def test_where_nobody_of_lower_priority_waits_the_order_holds(store: Store) -> None:
    await fill(store, "mail", 2, priority=9)
    await take(store, "mail")
    image = await put(store, "image", priority=9, now=NOW + 1)
    assert ids(await take(store, "mail", "image", turn=9, now=NOW + 1)) == [image.id]


async def test_no_more_than_there_is_room_for(store: Store) -> None:
    await fill(store, "mail", 10)
    await fill(store, "image", 10, priority=1)
    rooms = {"mail": Room(3, HOUR), "image": Room(2, HOUR), "none": Room(5, HOUR)}
    found = await store.claim([Ask("default", list("abcdefgh"), rooms, 0)], NOW)
    assert [each.type for each in found] == ["mail"] * 3 + ["image"] * 2
    assert [each.worker for each in found] == list("abcde")


@pytest.mark.parametrize("room", [0, -1])
async def test_a_type_without_room_waits(store: Store, room: int) -> None:
    await fill(store, "mail", 2)
    assert await take(store, room=room) == []


async def test_a_blocked_type_holds_nobody_up(store: Store) -> None:
    await fill(store, "mail", 50, priority=9)
    image = await put(store, "image", priority=0)
    rooms = {"mail": Room(0, HOUR), "image": Room(1, HOUR)}
    assert ids(await store.claim([Ask("default", ["w"], rooms, 0)], NOW)) == [image.id]


async def test_pools_are_served_together_and_no_job_twice(store: Store) -> None:
    jobs = await fill(store, "mail", 5)
    images = await fill(store, "image", 1)
    asks = [asking("mail", workers=3), asking("mail", "image", workers=4)]
    found = await store.claim(asks, NOW)
    assert sorted(ids(found)) == sorted(job.id for job in [*jobs, *images])


async def test_nothing_to_claim(store: Store) -> None:
    assert await store.claim([], NOW) == []
    assert await take(store) == []
    await put(store, delay=1)
    assert await take(store, now=NOW + DAY) == []
    await put(store, "image")
    assert await take(store, "mail") == []
    assert await take(store, "image", workers=0) == []


async def test_expired_jobs_are_passed_over(store: Store) -> None:
    await fill(store, "mail", 3, expires_at=NOW + 1)
    live = await put(store, expires_at=NOW + 2)
    assert ids(await take(store, workers=4, now=NOW + 1)) == [live.id]


async def test_expired_jobs_hold_up_others_no_longer_than_until_they_are_noted(
    store: Store,
) -> None:
    expired = await fill(store, "mail", 5, expires_at=NOW + 1)
    live = await fill(store, "mail", 2)
    assert not {job.id for job in expired} & {*ids(await take(store, workers=2, now=NOW + 1))}
    assert len(await store.expire(NOW + 1)) == 5
    await take(store, workers=2, room=2, now=NOW + 1)
    assert [await status_of(store, job.id) for job in live] == [Status.PROCESSING] * 2


async def flip_a_byte(path: Path, job: Job) -> None:
    with beside(path) as other:
        other.execute(
            "UPDATE payloads SET payload = CAST(replace(payload, 'a', 'b') AS BLOB) WHERE seq = ?",
            (place_of(job.id),),
        )


async def test_a_damaged_payload_is_told(opener: Opener, path: Path) -> None:
    store = await opener()
    sound, damaged = [await put(store, payload=b'"aaa"') for _ in range(2)]
    await store.close()
    await flip_a_byte(path, damaged)
    again = await opener()
    found = {each.lease.job_id: each.payload_intact for each in await take(again, workers=2)}
    assert found == {sound.id: True, damaged.id: False}


async def test_a_payload_that_is_gone_is_told(sqlite: SqliteStore, path: Path) -> None:
    job = await put(sqlite)
    with beside(path) as other:
        other.execute("DELETE FROM payloads WHERE seq = ?", (place_of(job.id),))
    [claimed] = await take(sqlite)
    assert not claimed.payload_intact


async def test_a_key_whose_payload_is_damaged_is_refused_in_words(
    sqlite: SqliteStore, path: Path
) -> None:
    job = await put(sqlite, idempotency_key="k", payload=b'{"a":1}')
    with beside(path) as other:
        other.execute("UPDATE payloads SET payload = x'7b' WHERE seq = ?", (place_of(job.id),))
    with pytest.raises(JobqueuedError):
        await put(sqlite, idempotency_key="k", payload=b'{"a":1}')


def spoil(path: Path, job: Job) -> None:
    """Make the row of a waiting job say a status that there is none of."""
    whole, row = path.read_bytes(), f"{job.id}{job.type}pending".encode()
    assert whole.count(row) == 1
    path.write_bytes(whole.replace(row, row.replace(b"pending", b"pend\x00ng")))


async def test_a_damaged_row_holds_up_no_other(opener: Opener, path: Path) -> None:
    store = await opener()
    damaged, sound = [await put(store) for _ in range(2)]
    await store.close()
    spoil(path, damaged)
    again = await opener()
    with pytest.raises(DamagedDatabase, match="doctor"):
        await take(again)
    assert [each.lease.job_id for each in await take(again)] == [sound.id]
    assert await take(again) == []
    assert [job.id for job in (await again.jobs(JobQuery())).jobs] == [sound.id]
    with pytest.raises(DamagedDatabase, match=damaged.id):
        await again.job(damaged.id)


@pytest.mark.parametrize("change", ["DELETE FROM payloads", "UPDATE payloads SET payload = x'7b'"])
async def test_a_job_without_its_payload_can_be_read(
    sqlite: SqliteStore, path: Path, change: str
) -> None:
    job = await put(sqlite)
    with beside(path) as other:
        other.execute(change)
    read = await sqlite.job(job.id)
    assert read is not None
    assert read.payload == b"null"
    assert [each.payload for each in (await sqlite.jobs(JobQuery())).jobs] == [b"null"]
