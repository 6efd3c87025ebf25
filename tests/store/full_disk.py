"""What a store does on a full disk; each scenario runs in a process that has a small disk.

`python -m tests.store.full_disk SCENARIO DIRECTORY`, where DIRECTORY is a file system of 48 MiB.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from jobqueued.model.errors import DiskFull
from jobqueued.model.job import Claimed, Progress, Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.sqlite.files import RESERVE_BYTES
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import beside, end, lanes_in, new_job, opened, put, take, until

PAYLOAD = b'"%s"' % (b"x" * 60_000)


class Disk:
    """A file system that can be filled to the last block."""

    def __init__(self, place: Path) -> None:
        self.database = place / "jobs.db"
        self._filler = place / "filler"

    @property
    def free(self) -> int:
        found = os.statvfs(self.database.parent)
        return found.f_bavail * found.f_frsize

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                while self.free >= size:
                    file.write(bytes(size))

    def empty(self) -> None:
        self._filler.unlink()


async def until_refused(store: SqliteStore) -> list[str]:
    """Submit until the disk is full; the ids of what was taken."""
    taken: list[str] = []
    while True:
        try:
            taken.append((await put(store, payload=PAYLOAD)).id)
        except DiskFull:
            return taken


async def ids_of(store: SqliteStore) -> set[str]:
    return {job.id for job in (await store.jobs(JobQuery(limit=500))).jobs}


async def claim(store: SqliteStore, count: int) -> list[Claimed]:
    for _ in range(count):
        await put(store)
    return await take(store, workers=count)


async def submissions_are_refused(disk: Disk) -> None:
    async with opened(disk.database) as store:
        disk.fill()
        taken = await until_refused(store)
        assert store.disk_full
        assert not store.failed.done()
        assert await ids_of(store) == set(taken)
        with beside(disk.database) as other:
            kept, real = lanes_in(other)
        assert kept == real
    async with opened(disk.database) as again:
        assert await ids_of(again) == set(taken)


async def outcomes_are_still_written(disk: Disk) -> None:
    async with opened(disk.database) as store:
        claimed = await claim(store, 10)
        disk.fill()
        await until_refused(store)
        for each in claimed:
            assert await end(store, each, log=b"x" * 20_000) == Status.COMPLETED
        assert store.disk_full
        assert store.counts.of("mail", "completed") == 10


async def outcomes_wait_for_space(disk: Disk) -> None:
    """Somebody else took even the reserve: outcomes wait, and are written when there is space."""
    async with opened(disk.database) as store:
        claimed = await claim(store, 3)
        disk.fill()
        await until_refused(store)
        disk.fill()
        ends = [asyncio.create_task(end(store, each, log=b"x" * 50_000)) for each in claimed]
        done, _ = await asyncio.wait(ends, timeout=0.7)
        assert not done
        disk.empty()
        assert await asyncio.gather(*ends) == [Status.COMPLETED] * 3


async def closing_ends(disk: Disk) -> None:
    """What cannot be written is told to its caller; a shutdown does not wait for space."""
    async with opened(disk.database) as store:
        [claimed] = await claim(store, 1)
        disk.fill()
        await until_refused(store)
        disk.fill()
        outcome = asyncio.create_task(end(store, claimed, log=b"x" * 50_000))
        await asyncio.wait([outcome], timeout=0.1)
        async with asyncio.timeout(5):
            await store.close()
        assert isinstance(outcome.exception(), DiskFull)
    disk.empty()
    async with opened(disk.database) as again:
        assert [held.lease for held in await again.held_by_daemon()] == [claimed.lease]


async def it_resumes_alone(disk: Disk) -> None:
    async with opened(disk.database) as store:
        disk.fill()
        await until_refused(store)
        disk.empty()
        await until(lambda: not store.disk_full)
        assert (await put(store)).status == Status.PENDING
        assert reserve_of(disk).stat().st_size == RESERVE_BYTES


async def it_starts_on_a_full_disk(disk: Disk) -> None:
    """The reserve is there for this too: what ran before is taken up and ended."""
    async with opened(disk.database) as store:
        [claimed] = await claim(store, 1)
    disk.fill()
    async with opened(disk.database) as store:
        assert store.disk_full
        assert await end(store, claimed) == Status.COMPLETED
        disk.empty()
        await until(lambda: not store.disk_full)
        await put(store)


async def an_operator_removed_the_reserve(disk: Disk) -> None:
    async with opened(disk.database) as store:
        disk.fill()
        reserve_of(disk).unlink()
        disk.fill()
        await until_refused(store)
        assert not store.failed.done()
        disk.empty()
        await until(lambda: not store.disk_full)
        await put(store)


async def others_are_not_spoiled(disk: Disk) -> None:
    """Of a group that does not fit, the small ones are written and the large one is refused."""
    async with opened(disk.database) as store:
        [claimed] = await claim(store, 1)
        disk.fill()
        large = new_job(payload=b'"%s"' % (b"x" * 30_000_000))
        refused, outcome = await asyncio.gather(
            store.submit([large], batch_id=None, window=0),
            end(store, claimed),
            return_exceptions=True,
        )
        assert isinstance(refused, DiskFull)
        assert outcome == Status.COMPLETED


async def leases_are_still_extended(disk: Disk) -> None:
    async with opened(disk.database) as store:
        [claimed] = await claim(store, 1)
        disk.fill()
        await until_refused(store)
        moments = [claimed.started_at + 10**8 + number for number in range(5)]
        assert await store.extend([claimed.lease] * 5, moments) == [True] * 5
        assert await store.next_lease_expiry() == moments[-1]
        with suppress(DiskFull):
            await store.report_progress(claimed.lease, Progress(50.0))
        assert not store.failed.done()


def reserve_of(disk: Disk) -> Path:
    return disk.database.with_name("jobs.db.reserve")


SCENARIOS: dict[str, Callable[[Disk], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        submissions_are_refused,
        outcomes_are_still_written,
        outcomes_wait_for_space,
        closing_ends,
        it_resumes_alone,
        it_starts_on_a_full_disk,
        an_operator_removed_the_reserve,
        others_are_not_spoiled,
        leases_are_still_extended,
    )
}


async def main(name: str, place: str) -> None:
    async with asyncio.timeout(15):
        await SCENARIOS[name](Disk(Path(place)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
