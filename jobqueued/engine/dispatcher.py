"""The only part that claims: pending jobs to idle workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.engine.workers import Pool
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.control import Room
from jobqueued.model.job import Claimed
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Ask


class OpenTypes:
    """The types that have jobs pending and that no gate holds at one moment."""

    def __init__(self, shared: Shared, now: int) -> None:
        self.next_at: int | None = None
        """When the first of the gates that were met opens by itself."""
        self._shared = shared
        self._now = now

    def rooms(self, names: Iterable[str], lease: int | None = None) -> dict[str, Room]:
        """Those of the named types, and their room."""
        gates = self._shared.gates
        return {name: gates.room(name, lease) for name in names if self._is_open(name)}

    def _is_open(self, name: str) -> bool:
        if self._shared.store.counts.of(name, "pending") <= 0:
            return False
        gate = self._shared.gates.first(name, self._now)
        if gate is not None and gate.until is not None:
            self.next_at = min(gate.until, self.next_at or gate.until)
        return gate is None


class Dispatcher(Part):
    """Sleeps until there is a pending job and an idle worker for it."""

    name = "dispatcher"

    def __init__(self, shared: Shared, pools: dict[str, Pool]) -> None:
        super().__init__()
        self._shared = shared
        self._pools = pools
        self._turns = dict.fromkeys(pools, 0)
        self._claims: set[asyncio.Task[None]] = set()
        self._rounds = 0

    async def stop(self) -> None:
        await super().stop()
        await self.wait_for_claims()

    def planned(self, now: int) -> list[Ask]:
        """What a round would ask for now."""
        open_types = OpenTypes(self._shared, now)
        here = self._asks(self._shared.config, open_types)
        return [*here, *self._shared.remote.planned(open_types)]

    async def wait_for_claims(self) -> None:
        """Come back when everything asked for has been answered."""
        while self._claims:
            await asyncio.wait(self._claims)

    async def run_once(self) -> int | None:
        self._rounds += 1
        await self._shared.remote.take_back()
        if self._shared.draining or not self._is_anybody_idle():
            return None
        if self._shared.gates.is_clock_set_back(clock.now()):
            await self._shared.store.follow_clock(clock.now())
        return self._ask(self._shared.config)

    def _is_anybody_idle(self) -> bool:
        """Most wake-ups find everybody at work; who becomes idle wakes us again."""
        return len(self._shared.remote) > 0 or any(pool.idle for pool in self._pools.values())

    def _ask(self, config: Config) -> int | None:
        """Ask for everybody who is idle; who becomes idle later need not wait for the answer.

        Comes back with the moment at which the first gate opens that held somebody up.
        """
        open_types = OpenTypes(self._shared, clock.now())
        here, there = self._asks(config, open_types), self._shared.remote.asks(open_types)
        if here or there:
            for ask in here:
                self._pools[ask.pool].reserve(ask.workers)
                self._turn(ask.pool, len(ask.workers))
            claim = asyncio.create_task(
                self._answer(self._rounds, config, here, there), name="claim"
            )
            self._claims.add(claim)
            claim.add_done_callback(self._claims.discard)
        return open_types.next_at

    async def _answer(
        self, asked_in: int, config: Config, here: list[Ask], there: list[Ask]
    ) -> None:
        again = await self.guard(self._claim(config, here, there))
        # Whoever looked meanwhile passed over those for whom this was asked.
        if asked_in != self._rounds:
            self.wake()
        if again is not None:
            self.wake_at(again)

    async def _claim(self, config: Config, here: list[Ask], there: list[Ask]) -> None:
        """Start what can be started."""
        shared = self._shared
        claimed: list[Claimed] = []
        shared.claiming += 1
        try:
            claimed = await shared.store.claim([*here, *there], clock.now())
            # The configuration may be another by now; what was claimed under one runs under it.
            for job in claimed:
                if job.job is None:
                    self._start(job, config.types[job.type])
            shared.remote.deliver(there, [job for job in claimed if job.job is not None])
        finally:
            shared.claiming -= 1
            shared.remote.release(there)
            for ask in here:
                self._turn(ask.pool, -self._pools[ask.pool].release(ask.workers))
        if claimed:
            self.wake()

    def _turn(self, pool: str, number: int) -> None:
        self._turns[pool] = self._turns.get(pool, 0) + number

    def _asks(self, config: Config, open_types: OpenTypes) -> list[Ask]:
        asks = []
        for name, pool in self._pools.items():
            if pool.idle and name in config.pools:
                found = open_types.rooms(self._shared.gates.types_of(name))
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
        shared.running.add(running)
        shared.keeper.watch(running)
        shared.reaper.wake_at(running.lease_expires_at)
        shared.changes.notify(claimed.lease.job_id)
        self._pools[claimed.pool].start(running)
