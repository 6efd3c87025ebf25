"""The only part that claims: pending jobs to idle workers."""

from __future__ import annotations

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.limits import rooms
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.engine.workers import Pool
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Ask


class Dispatcher(Part):
    """Sleeps until there is a pending job and an idle worker for it."""

    name = "dispatcher"

    def __init__(self, shared: Shared, pools: dict[str, Pool]) -> None:
        super().__init__()
        self._shared = shared
        self._pools = pools
        self._turns = dict.fromkeys(pools, 0)

    async def run_once(self) -> int | None:
        claimed = True
        while claimed and not self._shared.draining:
            claimed = await self._claim(self._shared.config)
        return None

    async def _claim(self, config: Config) -> bool:
        """Start what can be started; whether there was anything."""
        asks = self._asks(config)
        self._shared.claiming = True
        try:
            claimed = await self._shared.store.claim(asks, clock.now()) if asks else []
            # The configuration may be another by now; what was claimed under one runs under it.
            for job in claimed:
                self._start(job, config.types[job.type])
        finally:
            self._shared.claiming = False
        return bool(claimed)

    def _asks(self, config: Config) -> list[Ask]:
        asks = []
        for name, pool in self._pools.items():
            if pool.idle and name in config.pools:
                found = rooms(config, name, config.pools[name], self._shared.store.counts)
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
