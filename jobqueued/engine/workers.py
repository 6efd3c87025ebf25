"""Pools: a fixed number of workers that take claimed jobs from a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from jobqueued.engine.running import Running
from jobqueued.model.outcome import Outcome

Run = Callable[[Running], Awaitable[Outcome]]
Settle = Callable[[Running, Outcome], Awaitable[None]]


class Pool:
    """The workers of one pool; a worker is idle when its name is in `idle`."""

    def __init__(self, name: str, workers: int, run: Run, settle: Settle):
        self.name = name
        self.idle: list[str] = []
        self.workers = 0
        self._run = run
        self._settle = settle
        self._queue: asyncio.Queue[Running] = asyncio.Queue(maxsize=1000)
        self._busy: set[str] = set()
        self._asked: set[str] = set()
        """Workers for whom jobs are being claimed."""
        self._tasks: list[asyncio.Task[None]] = []
        self.resize(workers)

    @property
    def busy(self) -> int:
        return len(self._busy)

    def resize(self, workers: int) -> None:
        """Have so many workers; those too many go when they are idle."""
        self.workers = workers
        self._names = {f"{self.name}-{number}" for number in range(1, workers + 1)}
        self.idle = sorted(self._names - self._busy - self._asked, reverse=True)
        while len(self._tasks) < workers:
            self._tasks.append(asyncio.create_task(self._work(), name=f"worker {self.name}"))

    def reserve(self, workers: Iterable[str]) -> None:
        """Jobs are being claimed for these workers: nobody else is to claim for them."""
        self._asked.update(workers)
        self.idle = [worker for worker in self.idle if worker not in self._asked]

    def release(self, workers: Iterable[str]) -> int:
        """The claim is over: who got no job is idle again; how many those are."""
        left = [worker for worker in workers if worker in self._asked]
        for worker in left:
            self._asked.discard(worker)
            self._rest(worker)
        return len(left)

    def start(self, running: Running) -> None:
        """Give a job to the worker it was claimed for."""
        worker = running.claimed.worker
        self._asked.discard(worker)
        self._busy.add(worker)
        self._queue.put_nowait(running)

    async def close(self) -> None:
        """End the workers; nothing may be running any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            running = await self._queue.get()
            try:
                outcome = await self._run(running)
            finally:
                self._rest(running.claimed.worker)
            # Idle already: the next job is claimed while the outcome goes to disk.
            await self._settle(running, outcome)

    def _rest(self, worker: str) -> None:
        self._busy.discard(worker)
        if worker in self._names:
            self.idle.append(worker)
