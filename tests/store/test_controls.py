"""Pauses, breakers and rates: on disk, and in force from the very next claim."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jobqueued.model.control import Control, Room
from jobqueued.model.rate import Rate
from jobqueued.store.interface import Ask, Store
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import (
    HOUR,
    NOW,
    SECOND,
    Opener,
    asking,
    beside,
    end,
    opened,
    put,
    running,
    take,
)

MINUTE = 60 * SECOND


def limited(*workers: str, most: int = 100, pool: str = "default", **limits: object) -> Ask:
    """A pool that asks for mail, held to more than how many may run."""
    room = Room(most, HOUR, **limits)  # type: ignore[arg-type]
    return Ask(pool, workers, {"mail": room}, 0)


FIVE = ("w1", "w2", "w3", "w4", "w5")


async def test_a_paused_type_is_not_claimed_until_it_is_resumed(store: Store) -> None:
    await put(store)
    await put(store, "image")
    await store.pause("mail", "user ada", "why not", NOW)
    assert [job.type for job in await take(store, "mail", "image", workers=5)] == ["image"]
    await store.resume("mail")
    assert [job.type for job in await take(store, "mail", "image", workers=5)] == ["mail"]


async def test_the_first_pause_stays_with_the_newest_note(store: Store) -> None:
    await store.pause("mail", "user ada", "first", NOW)
    await store.pause("mail", "user bob", "second", NOW + SECOND)
    assert store.controls["mail"] == Control(
        paused_at=NOW, paused_by="user bob", paused_note="second"
    )
    await store.resume("mail")
    await store.resume("mail")
    assert store.controls["mail"] == Control()


async def test_a_pause_holds_for_a_claim_that_was_asked_for_before_it(sqlite: SqliteStore) -> None:
    """In one group the pause is done first, whoever came first."""
    await put(sqlite)
    claim = asyncio.ensure_future(sqlite.claim([asking("mail")], NOW))
    pause = asyncio.ensure_future(sqlite.pause("mail", "user ada", None, NOW))
    commits = sqlite.writer.commits
    assert await claim == []
    await pause
    assert sqlite.writer.commits == commits + 1


async def test_a_pause_that_fails_with_its_group_is_done_alone(sqlite: SqliteStore) -> None:
    def fail(_: object) -> None:
        raise ValueError("no")

    await put(sqlite)
    bad = sqlite.writer.write(fail, essential=False)
    pause = asyncio.ensure_future(sqlite.pause("mail", "user ada", None, NOW))
    claim = asyncio.ensure_future(sqlite.claim([asking("mail")], NOW))
    with pytest.raises(ValueError, match="no"):
        await bad
    await pause
    assert await claim == []
    assert sqlite.controls["mail"].paused_at == NOW


async def test_everything_survives_a_restart(opener: Opener) -> None:
    store = await opener()
    for _ in range(3):
        await put(store)
    await store.claim([limited("w1", rate=Rate(1, MINUTE))], NOW)
    await store.open_breaker("image", "9 of 10 failed", NOW, NOW + MINUTE)
    await store.pause("image", "user ada", "why not", NOW + 1)
    before = dict(store.controls)
    await store.close()
    again = await opener()
    assert dict(again.controls) == before
    assert set(before) == {"mail", "image"}
    assert await again.claim([limited("w1", rate=Rate(1, MINUTE))], NOW + MINUTE - 1) == []
    assert len(await again.claim([limited("w1", rate=Rate(1, MINUTE))], NOW + MINUTE)) == 1


async def test_what_is_on_disk_after_a_crash_is_what_was_claimed(path: Path) -> None:
    """A copy of the file as another program sees it: claim and token are there, or neither."""
    async with opened(path) as store:
        for _ in range(3):
            await put(store)
        assert len(await store.claim([limited(*FIVE, rate=Rate(2, SECOND))], NOW)) == 2
        with beside(path) as other:
            [[spent]] = other.execute("SELECT spent_until FROM controls").fetchall()
            [[claimed]] = other.execute("SELECT count(*) FROM jobs WHERE attempt = 1").fetchall()
    assert (spent, claimed) == (str(NOW), 2)


async def test_no_more_are_claimed_than_there_are_tokens(store: Store) -> None:
    for _ in range(10):
        await put(store)
    ask = limited(*FIVE, rate=Rate(3, SECOND))
    found = [len(await store.claim([ask], NOW + after)) for after in (0, 333, 334, 1_000, 9_000)]
    assert found == [3, 0, 1, 2, 3]


async def test_two_pools_that_ask_together_share_the_tokens(store: Store) -> None:
    for _ in range(10):
        await put(store)
    asks = [limited(*FIVE, pool=pool, rate=Rate(7, SECOND)) for pool in ("one", "two")]
    claimed = await store.claim(asks, NOW)
    assert [job.pool for job in claimed] == ["one"] * 5 + ["two"] * 2
    assert await store.claim(asks, NOW) == []


async def test_two_callers_of_one_group_share_the_tokens(sqlite: SqliteStore) -> None:
    for _ in range(10):
        await put(sqlite)
    ask = limited(*FIVE, rate=Rate(7, SECOND))
    commits = sqlite.writer.commits
    both = await asyncio.gather(sqlite.claim([ask], NOW), sqlite.claim([ask], NOW))
    assert [len(jobs) for jobs in both] == [5, 2]
    assert sqlite.writer.commits == commits + 1


async def test_a_type_held_by_its_rate_leaves_its_workers_to_others(store: Store) -> None:
    for kind in ("mail", "mail", "image", "image"):
        await put(store, kind)
    rooms = {"mail": Room(100, HOUR, Rate(1, MINUTE)), "image": Room(100, HOUR)}
    claimed = await store.claim([Ask("default", FIVE, rooms, 0)], NOW)
    assert sorted(job.type for job in claimed) == ["image", "image", "mail"]


async def test_an_open_breaker_lets_one_through_at_a_time(store: Store) -> None:
    for _ in range(5):
        await put(store)
    ask = limited(*FIVE, probe_every=MINUTE)
    assert await store.open_breaker("mail", "all failed", NOW, NOW + MINUTE)
    assert not await store.open_breaker("mail", "again", NOW + 1, NOW + HOUR)
    assert await store.claim([ask], NOW + MINUTE - 1) == []
    [probe] = await store.claim([ask], NOW + MINUTE)
    assert store.controls["mail"].breaker_probe_at == NOW + 2 * MINUTE
    assert await store.claim([ask], NOW + HOUR) == []
    await end(store, probe)
    assert await store.claim([ask], NOW + 2 * MINUTE - 1) == []
    assert len(await store.claim([ask], NOW + HOUR)) == 1


async def test_a_breaker_is_closed_once_and_only_as_it_was_opened(store: Store) -> None:
    for _ in range(5):
        await put(store)
    await store.open_breaker("mail", "all failed", NOW, NOW + MINUTE)
    assert not await store.close_breaker("mail", NOW - 1)
    assert await store.close_breaker("mail", NOW)
    assert not await store.close_breaker("mail", NOW)
    assert len(await store.claim([limited(*FIVE, probe_every=MINUTE)], NOW)) == 5


async def test_a_breaker_that_is_switched_off_holds_nobody(store: Store) -> None:
    for _ in range(5):
        await put(store)
    await store.open_breaker("mail", "all failed", NOW, NOW + MINUTE)
    assert len(await store.claim([limited(*FIVE)], NOW)) == 5


async def test_while_more_run_than_a_probe_an_open_breaker_waits(store: Store) -> None:
    first = await running(store)
    await put(store)
    await store.open_breaker("mail", "all failed", NOW, NOW + MINUTE)
    ask = limited(*FIVE, probe_every=MINUTE)
    assert await store.claim([ask], NOW + HOUR) == []
    await end(store, first)
    assert len(await store.claim([ask], NOW + HOUR)) == 1


async def test_a_clock_that_was_set_back_starves_nobody(store: Store) -> None:
    for _ in range(5):
        await put(store)
    ask = limited("w1", rate=Rate(1, MINUTE), probe_every=MINUTE)
    assert len(await store.claim([ask], NOW)) == 1
    await store.open_breaker("image", "all failed", NOW, NOW + MINUTE)
    earlier = NOW - HOUR
    await store.follow_clock(earlier)
    assert await store.claim([ask], earlier + MINUTE - 1) == []
    assert len(await store.claim([ask], earlier + MINUTE)) == 1
    assert store.controls["image"].breaker_probe_at == earlier + MINUTE


async def test_a_pause_in_the_moment_in_which_the_clock_is_set_back_holds(
    sqlite: SqliteStore,
) -> None:
    await put(sqlite)
    await sqlite.claim([limited("w1", rate=Rate(1, MINUTE))], NOW)
    earlier = NOW - HOUR
    commits = sqlite.writer.commits
    await asyncio.gather(
        sqlite.pause("mail", "user ada", None, earlier), sqlite.follow_clock(earlier)
    )
    assert sqlite.writer.commits == commits + 1
    assert sqlite.controls["mail"].paused_at == earlier
    assert sqlite.controls["mail"].spent_until == earlier
