"""What runs in this process right now, and who waits for a job to change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from jobqueued.executors.interface import StopReason, Task
from jobqueued.model.job import Claimed, Progress


@dataclass(slots=True)
class Running:
    """One attempt under way."""

    task: Task
    lease_expires_at: int
    logged: int = 0
    """How much of its output is on disk."""
    progress: Progress | None = None
    """What the handler last said and is not on disk yet."""
    ended: bool = False
    """Whether its outcome is known, and only has to be written."""
    timer: asyncio.TimerHandle | None = None
    """Ends the attempt when its time is over."""

    @property
    def claimed(self) -> Claimed:
        return self.task.claimed


class RunningJobs:
    """The attempts of this process, by lease token and by job."""

    def __init__(self) -> None:
        self._by_token: dict[str, Running] = {}
        self._by_job: dict[str, Running] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self.ending: Counter[str] = Counter()
        """How many of each type have ended and wait for their outcome to be on disk."""

    def __iter__(self) -> Iterator[Running]:
        return iter(list(self._by_token.values()))

    def __len__(self) -> int:
        return len(self._by_token)

    def add(self, running: Running) -> None:
        lease = running.claimed.lease
        self._by_token[lease.token] = running
        self._by_job[lease.job_id] = running
        self._empty.clear()

    def remove(self, running: Running) -> None:
        lease = running.claimed.lease
        del self._by_token[lease.token]
        if self._by_job.get(lease.job_id) is running:
            del self._by_job[lease.job_id]
        if not self._by_token:
            self._empty.set()

    def by_token(self, token: str) -> Running | None:
        return self._by_token.get(token)

    def by_job(self, job_id: str) -> Running | None:
        return self._by_job.get(job_id)

    def stop_all(self, *, kill: bool) -> None:
        """Tell every handler that the daemon is stopping."""
        for running in self:
            stop = running.task.stop
            (stop.kill if kill else stop.ask)(StopReason.INTERRUPTED)

    async def wait_until_empty(self) -> None:
        await self._empty.wait()


class Changes:
    """Wakes those who wait for a job to move on."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def notify(self, job_id: str) -> None:
        for waiter in self._waiting.pop(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def next(self, job_id: str) -> asyncio.Future[None]:
        """Done at the job's next change; take it before reading the job."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, set()).add(waiter)
        waiter.add_done_callback(lambda done: self._forget(job_id, done))
        return waiter

    def _forget(self, job_id: str, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(job_id)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[job_id]
