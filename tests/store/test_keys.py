"""Jobs that share a key: how many of them run, who is next, and what becomes of the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobqueued.model.job import Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Key, Store
from jobqueued.store.sqlite.offline import read_status
from tests.store.support import (
    DAY,
    NOW,
    Opener,
    beside,
    end,
    fill_schema_1,
    key_queue,
    new_job,
    opened,
    put,
    status_of,
    take,
)

MANY = 1_200


async def limit(store: Store, most: int | None, job_type: str = "mail") -> int:
    """Have at most so many of a key run; in how many steps that was reached."""
    position: Key | None = None
    for step in range(1, 1_000):
        position = await store.line_up(job_type, most, position)
        if position is None:
            assert store.is_lined_up(job_type, most)
            return step
        assert not store.is_lined_up(job_type, most)
    raise AssertionError("it never ends")


async def flood(store: Store, number: int, key: str = "one", **fields: Any) -> list[str]:
    jobs = [new_job(key=key, **fields) for _ in range(number)]
    placed = await store.submit(jobs, batch_id=None, window=DAY)
    return [each.job.id for each in placed]


async def claimable(store: Store) -> list[str]:
    """What a claim finds; the jobs run on."""
    return [each.lease.job_id for each in await take(store, workers=50)]


def held_back(path: Path) -> int:
    with beside(path) as other:
        query = "SELECT count(*) FROM jobs WHERE status = 'pending' AND held_back"
        return int(other.execute(query).fetchone()[0])


async def test_at_most_so_many_of_a_key_run_and_others_flow(store: Store) -> None:
    await limit(store, 2)
    flooding = await flood(store, 10)
    others = [await put(store, key=key) for key in ("two", "three", None, None)]
    assert await claimable(store) == [*flooding[:2], *(job.id for job in others)]
    assert await claimable(store) == []


async def test_a_type_without_a_limit_minds_no_keys(store: Store) -> None:
    await limit(store, 1)
    images = [await put(store, "image", key="one") for _ in range(3)]
    found = await take(store, "image", workers=9)
    assert [each.lease.job_id for each in found] == [job.id for job in images]


async def test_a_key_is_another_for_each_type_and_tenant(store: Store) -> None:
    await limit(store, 1)
    await limit(store, 1, "image")
    for tenant in (None, "acme", "other"):
        await flood(store, 2, tenant=tenant)
        await put(store, "image", key="one", tenant=tenant)
    found = await take(store, "mail", "image", workers=20)
    assert Counter((each.type, each.tenant) for each in found) == {
        (job_type, tenant): 1
        for job_type in ("mail", "image")
        for tenant in (None, "acme", "other")
    }


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.DEAD, Status.RETRYING])
async def test_the_next_goes_when_one_has_ended(store: Store, status: Status) -> None:
    await limit(store, 1)
    first, second, _ = await flood(store, 3)
    [claimed] = await take(store, workers=5)
    await end(store, claimed, status)
    assert claimed.lease.job_id == first
    assert await claimable(store) == [second]


async def test_the_next_goes_in_the_order_of_submission(store: Store) -> None:
    await limit(store, 1)
    ids = await flood(store, 8)
    found = []
    for _ in ids:
        [claimed] = await take(store, workers=5)
        await end(store, claimed)
        found.append(claimed.lease.job_id)
    assert found == ids


async def test_a_more_urgent_job_of_the_key_overtakes(store: Store) -> None:
    await limit(store, 1)
    await flood(store, 3)
    [urgent] = await flood(store, 1, priority=9)
    assert await claimable(store) == [urgent]


async def test_who_is_interrupted_lets_a_more_urgent_one_go_first(store: Store) -> None:
    await limit(store, 1)
    [slow] = await flood(store, 1, priority=1)
    [claimed] = await take(store)
    [urgent] = await flood(store, 1, priority=9)
    await end(store, claimed, Status.PENDING)
    [claimed] = await take(store, workers=5)
    assert claimed.lease.job_id == urgent
    await end(store, claimed)
    assert await claimable(store) == [slow]


async def test_a_place_is_free_again_when_who_had_it_is_cancelled_or_expires(store: Store) -> None:
    await limit(store, 1)
    [first] = await flood(store, 1)
    [second] = await flood(store, 1, expires_at=NOW + 5)
    third, _ = await flood(store, 2)
    await store.cancel(first, NOW)
    await store.expire(NOW + 5)
    assert await status_of(store, second) is Status.EXPIRED
    assert await claimable(store) == [third]


async def test_who_comes_later_waits_as_well(store: Store) -> None:
    await limit(store, 1)
    [later, hurried] = await flood(store, 2, delay=50)
    [first] = await flood(store, 1)
    await store.run_now(hurried, NOW + 1)
    await store.promote(NOW + 50)
    assert await claimable(store) == [first]
    assert await status_of(store, later) is Status.PENDING


async def test_what_comes_goes_and_is_claimed_in_one_group_keeps_to_it(store: Store) -> None:
    await limit(store, 2)
    await flood(store, 4)
    for _ in range(10):
        claimed = await take(store, workers=5)
        assert len(claimed) == 2
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(take(store, workers=50))
            for each in claimed:
                for _ in range(3):
                    group.create_task(put(store, key="one"))
                group.create_task(end(store, each))
        taken = taking.result()
        assert len(taken) == 2
        for each in taken:
            await end(store, each, Status.PENDING)


async def test_a_lower_limit_lets_run_what_runs(store: Store) -> None:
    await limit(store, 3)
    await flood(store, 6)
    claimed = await take(store, workers=9)
    assert len(claimed) == 3
    await limit(store, 1)
    await end(store, claimed[0])
    await end(store, claimed[1])
    assert await claimable(store) == []
    await end(store, claimed[2])
    assert len(await claimable(store)) == 1


@pytest.mark.parametrize(("most", "more"), [(3, 2), (None, 5)])
async def test_a_higher_limit_or_none_lets_more_go(
    store: Store, most: int | None, more: int
) -> None:
    await limit(store, 1)
    await flood(store, 6)
    assert len(await claimable(store)) == 1
    await limit(store, most)
    assert len(await claimable(store)) == more


async def test_a_limit_that_is_gone_is_forgotten(store: Store) -> None:
    await limit(store, 1)
    await flood(store, 6)
    await limit(store, None)
    await flood(store, 3)
    assert len(await claimable(store)) == 9


async def test_limits_are_kept_over_a_restart(opener: Opener) -> None:
    store = await opener()
    await limit(store, 2)
    await store.close()
    again = await opener()
    assert again.is_lined_up("mail", 2)
    assert not again.is_lined_up("mail", None)
    await flood(again, 5)
    assert len(await claimable(again)) == 2


async def test_another_limit_is_followed_a_few_jobs_at_a_time(opener: Opener, path: Path) -> None:
    """And when that is cut off, not even the old limit counts as kept."""
    store = await opener()
    await flood(store, MANY)
    await limit(store, MANY)
    position = await store.line_up("mail", 1, None)
    assert 0 < held_back(path) < MANY // 2
    assert position is not None
    await store.close()
    again = await opener()
    assert not any(again.is_lined_up("mail", most) for most in (None, 1, MANY))
    assert await limit(again, 1) >= 3
    assert held_back(path) == MANY - 1
    assert await limit(again, None) >= 4
    assert held_back(path) == 0


async def test_many_keys_are_lined_up_a_few_at_a_time(store: Store) -> None:
    jobs = [new_job(key=str(number // 2), tenant=str(number % 3)) for number in range(MANY)]
    await store.submit(jobs, batch_id=None, window=DAY)
    assert await limit(store, 1) >= 4
    found = await take(store, workers=MANY, room=MANY)
    assert len(found) == len({(each.tenant, each.key) for each in found}) == MANY


async def test_what_comes_and_goes_while_jobs_are_lined_up_is_neither_lost_nor_too_much(
    store: Store,
) -> None:
    old = await flood(store, MANY, key="b")
    position = await store.line_up("mail", 2, None)
    assert position is not None
    new = [await flood(store, 5, key=key) for key in "abc"]
    await store.cancel(old[0], NOW)
    while position is not None:
        position = await store.line_up("mail", 2, position)
    assert sorted(await claimable(store)) == sorted([*new[0][:2], *old[1:3], *new[2][:2]])


async def test_a_job_held_back_is_read_like_any_other(store: Store) -> None:
    await limit(store, 1)
    ids = await flood(store, 5)
    unkeyed = await put(store)
    page = await store.jobs(JobQuery(statuses=("pending",)))
    assert [job.id for job in page.jobs] == [unkeyed.id, *reversed(ids)]
    first = await store.jobs(JobQuery(statuses=("pending",), limit=2))
    assert [job.id for job in first.jobs] == [unkeyed.id, ids[4]]
    keyed = await store.jobs(JobQuery(statuses=("pending",), key="one"))
    assert [job.id for job in keyed.jobs] == ids[::-1]
    assert store.counts.of("mail", "pending") == 6


async def test_the_oldest_pending_job_is_one_that_waits_for_no_other_of_its_key(
    store: Store,
) -> None:
    await limit(store, 1)
    await flood(store, 3)
    await put(store, now=NOW + 7)
    await take(store)
    assert await store.oldest_pending() == NOW + 7


async def test_whom_a_job_of_a_key_waits_for(store: Store) -> None:
    await limit(store, 25)
    ids = await flood(store, 30)
    [urgent] = await flood(store, 1, priority=9)
    claimed = await take(store, workers=50, room=20)
    found = await key_queue(store, ids[-1])
    assert found is not None
    assert (found.key, found.running, found.ahead) == ("one", 20, 10)
    assert set(found.running_ids) == {each.lease.job_id for each in claimed}
    assert await key_queue(store, urgent) is None
    assert await key_queue(store, new_job().id) is None
    await take(store, workers=50)
    found = await key_queue(store, ids[-1])
    assert found is not None
    assert (found.running, len(found.running_ids), found.ahead) == (25, 20, 5)
    assert not found.more


async def test_how_many_are_ahead_is_counted_to_a_bound(store: Store) -> None:
    await limit(store, 1)
    ids = await flood(store, MANY)
    found = await key_queue(store, ids[-1])
    assert found is not None
    assert (found.ahead, found.more) == (1_000, True)


async def test_a_file_of_schema_1_gets_its_jobs_in_line(path: Path) -> None:
    jobs = [*(new_job(key="one") for _ in range(5)), new_job()]
    fill_schema_1(path, jobs)
    assert read_status(path)["counts"] == {"pending": 6}
    async with opened(path) as store:
        assert held_back(path) == 0
        assert store.is_lined_up("mail", None)
        await limit(store, 1)
        assert held_back(path) == 4
        assert sorted(await claimable(store)) == sorted([jobs[0].id, jobs[-1].id])
