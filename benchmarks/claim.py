"""What a claim costs with a short and with a very long queue behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmarks.support import Figure, Required, fresh_place, say
from jobqueued import clock
from jobqueued.model.control import Room
from jobqueued.model.ids import IdMaker
from jobqueued.model.job import Claimed, Job, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import Next
from jobqueued.store.interface import Ask, Settlement
from jobqueued.store.sqlite.store import SqliteStore

T = TypeVar("T")

FEW, MANY = 1_000, 1_000_000
ROUNDS = 400
WORKERS = 10
TYPES = ("resize", "notify", "report", "index")
PRIORITIES = (1, 5, 9)
AT_ONCE = 5_000
DAY_MS = 86_400_000


class Queue:
    """A store with a backlog that stays as long as it is."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.claims: list[float] = []
        self.settles: list[float] = []
        self._ids = IdMaker()
        self._made = 0
        self._turn = 0

    @classmethod
    async def open(cls, path: Path, waiting: int) -> Queue:
        """Without fsync, whose time would hide a difference."""
        queue = cls(await SqliteStore.open(path, "normal"))
        for _ in range(0, waiting, AT_ONCE):
            await queue.add(min(AT_ONCE, waiting))
        return queue

    async def add(self, count: int) -> None:
        """Submit jobs of every type and priority in turn."""
        jobs = [self._new_job() for _ in range(count)]
        await self.store.submit(jobs, batch_id=None, window=DAY_MS)

    def _new_job(self) -> Job:
        now, number = clock.now(), self._made
        self._made += 1
        return Job(
            id=self._ids.make(now),
            status=Status.PENDING,
            type=TYPES[number % len(TYPES)],
            payload=b'{"name":"world","number":42}',
            priority=PRIORITIES[number // len(TYPES) % len(PRIORITIES)],
            max_retries=5,
            created_at=now,
            run_at=now,
        )

    async def claim_and_settle(self) -> None:
        """Ten idle workers take a job each and complete it; as many new ones come."""
        workers = tuple(f"default-{number}" for number in range(1, WORKERS + 1))
        rooms = {name: Room(WORKERS, 60_000) for name in TYPES}
        asks = [Ask("default", workers, rooms, self._turn)]
        claimed = await _timed(self.store.claim(asks, clock.now()), self.claims)
        self._turn += len(claimed)
        settlements = [_completed(one) for one in claimed]
        recorded = await _timed(self.store.settle(settlements), self.settles)
        settled = sum(map(bool, recorded))
        if settled != WORKERS:
            raise RuntimeError(f"{settled} of {WORKERS} claimed and settled")
        await self.add(WORKERS)


async def _timed(work: Awaitable[T], took: list[float]) -> T:
    began = time.perf_counter()
    result = await work
    took.append((time.perf_counter() - began) * 1000)
    return result


def _completed(claimed: Claimed) -> Settlement:
    now = clock.now()
    return Settlement(
        claimed.lease, Outcome(kind=OutcomeKind.COMPLETED), Next(Status.COMPLETED, now, 0, 0), now
    )


def measure() -> list[Figure]:
    """The short queue and the long one in turn."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with fresh_place() as place:
        say(f"  filling queues of {FEW:,} and {MANY:,} jobs")
        few = await Queue.open(place / "few.db", FEW)
        many = await Queue.open(place / "many.db", MANY)
        try:
            say(f"  {ROUNDS} claims from each")
            for _ in range(ROUNDS):
                await few.claim_and_settle()
                await many.claim_and_settle()
        finally:
            await few.store.close()
            await many.store.close()
    return _figures(few, many)


def _figures(few: Queue, many: Queue) -> list[Figure]:
    against = f"{FEW:,} waiting"
    required = Required("at most", 1.5, of_ratio=True)
    return [
        Figure(f"claim {WORKERS} of {MANY:,}", median(many.claims), "ms", median(few.claims),
               against, required),
        Figure(f"settle {WORKERS} of {MANY:,}", median(many.settles), "ms",
               median(few.settles), against),
    ]  # fmt: skip
