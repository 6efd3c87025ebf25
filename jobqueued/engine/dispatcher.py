"""The only part that claims: pending jobs to idle workers."""

from __future__ import annotations

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.limits import rooms
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.engine.workers import Pool
from jobqueued.executors.interface import Executor, Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Ask


class Dispatcher(Part):
    """Sleeps until there is a pending job and an idle worker for it."""

    name = "dispatcher"

    def __init__(
        self, shared: Shared, pools: dict[str, Pool], executors: dict[str, Executor]
    ) -> None:
        super().__init__()
        self._executors = executors
        self._shared = shared
        self._pools = pools
        self._turns = dict.fromkeys(pools, 0)

    async def run_once(self) -> int | None:
        claimed = True
        while claimed:
            await self._shared.remote.take_back()
            claimed = not self._shared.draining and await self._claim(self._shared.config)
        return min(self.resting().values(), default=None)

    def resting(self) -> dict[str, int]:
        """The types whose jobs are better not begun now, and until when."""
        found = {}
        for name, job_type in self._shared.config.types.items():
            executor = self._executors.get(job_type.handler.kind)
            until = None if executor is None else executor.resting_until(job_type.handler)
            if until is not None:
                found[name] = until
        return found

    async def _claim(self, config: Config) -> bool:
        """Start what can be started; whether there was anything."""
        remote = self._shared.remote
        here, there = self._asks(config), remote.asks(config)
        self._shared.claiming = True
        try:
            asks = [*here, *there]
            claimed = await self._shared.store.claim(asks, clock.now()) if asks else []
            # The configuration may be another by now; what was claimed under one runs under it.
            for job in claimed:
                if job.job is None:
                    self._start(job, config.types[job.type])
            remote.deliver(there, [job for job in claimed if job.job is not None])
        finally:
            self._shared.claiming = False
        return bool(claimed)

    def _asks(self, config: Config) -> list[Ask]:
        asks = []
        counts, resting = self._shared.store.counts, self.resting()
        for name, pool in self._pools.items():
            if pool.idle and name in config.pools:
                settings, ending = config.pools[name], self._shared.running.ending
                found = rooms(config, name, settings, counts, resting=resting, ending=ending)
                if found:
                    asks.append(Ask(name, tuple(pool.idle), found, self._turns.get(name, 0)))
        return asks

    def _start(self, claimed: Claimed, job_type: JobType) -> None:
        shared = self._shared
        deadline = claimed.started_at + job_type.timeout
        running = Running(
            Task(claimed, job_type, deadline, shared.url, Output()),
            claimed.started_at + job_type.lease,
        )
        self._turns[claimed.pool] = self._turns.get(claimed.pool, 0) + 1
        shared.running.add(running)
        shared.keeper.watch(running)
        shared.reaper.wake_at(running.lease_expires_at)
        shared.changes.notify(claimed.lease.job_id)
        self._pools[claimed.pool].start(running)
