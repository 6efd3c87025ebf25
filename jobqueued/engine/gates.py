"""The one place that decides whether jobs of a type may start now, and what holds them if not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from jobqueued.config import Config, PoolSettings
from jobqueued.engine.gate import Gate
from jobqueued.engine.workers import Pool
from jobqueued.executors.interface import Executor
from jobqueued.model.control import OPEN_TO_ALL, Control, Room
from jobqueued.model.job_type import JobType

if TYPE_CHECKING:
    from jobqueued.engine.parts import Shared

_NO_LIMIT = 1_000_000_000


class Shares(msgspec.Struct, frozen=True):
    """What follows from a configuration: the types of each pool, and how many of each may run."""

    config: Config
    types: Mapping[str, list[JobType]]
    most: Mapping[str, int]


class Gates:
    """Asked by the dispatcher before it asks for a type, and by whoever wants to know why not."""

    def __init__(
        self, shared: Shared, pools: Mapping[str, Pool], executors: Mapping[str, Executor]
    ) -> None:
        self._shared = shared
        self._pools = pools
        self._executors = executors
        self._shares = shares(shared.config)

    def holding(self, name: str, now: int) -> Iterator[Gate]:
        """What holds a type now, in the order in which the gates are passed."""
        job_type = self._shared.config.types.get(name)
        if self._shared.draining:
            yield Gate(code="draining", type=name)
        if job_type is None:
            reason = f"no type {name} is configured, so nobody runs its jobs"
            yield Gate(code="no_worker", type=name, reason=reason)
            yield from _pause(name, self.control(name))
        else:
            yield from self._of_configured(job_type, now)

    def first(self, name: str, now: int) -> Gate | None:
        """The first that holds a type now; None when its jobs may start."""
        return next(self.holding(name, now), None)

    def _of_configured(self, job_type: JobType, now: int) -> Iterator[Gate]:
        control, is_remote = self.control(job_type.name), job_type.handler.kind == "remote"
        if is_remote and not self._shared.remote.waits_for(job_type.name):
            reason = f"no remote worker waits for jobs of type {job_type.name}"
            yield Gate(code="no_worker", type=job_type.name, reason=reason)
        yield from _pause(job_type.name, control)
        running = self.running(job_type.name)
        yield from _breaker(job_type, control, running, now)
        most = self.most(job_type.name)
        if running >= most:
            yield Gate(code="type_limit", type=job_type.name, running=running, limit=most)
        if not self._shared.store.is_lined_up(job_type.name, job_type.max_running_per_key):
            reason = f"the jobs of type {job_type.name} are being lined up by key, one moment"
            yield Gate(code="key_limit", type=job_type.name, reason=reason)
        yield from _rate(job_type, control, now)
        if not is_remote:
            yield from self._of_local(job_type)

    def _of_local(self, job_type: JobType) -> Iterator[Gate]:
        resting = self.resting_until(job_type)
        if resting is not None:
            yield Gate(code="host_resting", type=job_type.name, until=resting)
        pool = self._pools[job_type.pool]
        if not pool.idle:
            yield Gate(
                code="pool_full", type=job_type.name, pool=pool.name, running=pool.busy,
                limit=pool.workers,
            )  # fmt: skip

    def types_of(self, pool: str) -> Iterable[str]:
        """The types that the workers of a pool run."""
        return [job_type.name for job_type in self._current().types.get(pool, ())]

    def room(self, name: str, lease: int | None = None) -> Room:
        """How many jobs of a configured type may run, for how long, and how often they start."""
        job_type = self._shared.config.types[name]
        breaker, length = job_type.breaker, job_type.lease
        if job_type.handler.kind == "remote":
            length = min(lease or length, job_type.timeout)
        probe_every = None if breaker is None else breaker.probe_every
        return Room(self.most(name), length, job_type.rate, probe_every)

    def most(self, name: str) -> int:
        """How many jobs of a type may run at once: its own limit, or its share of the pool."""
        return self._current().most.get(name, 0)

    def running(self, name: str) -> int:
        """How many of a type run; those that are over leave room before that is on disk."""
        running = self._shared.store.counts.of(name, "processing")
        return running - self._shared.running.ending.get(name, 0)

    def control(self, name: str) -> Control:
        """What is on disk about a type."""
        return self._shared.store.controls.get(name, OPEN_TO_ALL)

    def is_clock_set_back(self, now: int) -> bool:
        """Whether something on disk is said to have happened later than now."""
        return any(control.is_ahead(now) for control in self._shared.store.controls.values())

    def resting_until(self, job_type: JobType) -> int | None:
        """Until when its jobs are better not begun, because whoever runs them needs a rest."""
        executor = self._executors.get(job_type.handler.kind)
        return None if executor is None else executor.resting_until(job_type.handler)

    def _current(self) -> Shares:
        if self._shares.config is not self._shared.config:
            self._shares = shares(self._shared.config)
        return self._shares


def shares(config: Config) -> Shares:
    """How the workers of every pool are shared between its types."""
    types: defaultdict[str, list[JobType]] = defaultdict(list)
    most = {}
    for job_type in config.types.values():
        if job_type.handler.kind == "remote":
            most[job_type.name] = job_type.max_running or _NO_LIMIT
        else:
            types[job_type.pool].append(job_type)
    for pool, members in types.items():
        share = _share(config.pools[pool], len(members))
        most |= {each.name: min(share, each.max_running or share) for each in members}
    return Shares(config, types, most)


def _share(settings: PoolSettings, types: int) -> int:
    if types <= 1:
        return settings.workers
    return max(1, int(settings.workers * settings.max_share))


def _pause(name: str, control: Control) -> Iterator[Gate]:
    if control.paused_at is not None:
        yield Gate(
            code="type_paused", type=name, since=control.paused_at, by=control.paused_by,
            note=control.paused_note,
        )  # fmt: skip


def _breaker(job_type: JobType, control: Control, running: int, now: int) -> Iterator[Gate]:
    breaker = job_type.breaker
    if control.breaker_since is None or breaker is None:
        return
    if running > 0 or not control.is_probe_due(breaker.probe_every, now):
        yield Gate(
            code="breaker_open", type=job_type.name, since=control.breaker_since,
            until=None if running > 0 else control.probe_at, running=running,
            reason=control.breaker_reason,
        )  # fmt: skip


def _rate(job_type: JobType, control: Control, now: int) -> Iterator[Gate]:
    rate = job_type.rate
    if rate is not None and rate.tokens(control.spent_until, now) < 1:
        until = rate.next_token_at(control.spent_until, now)
        yield Gate(code="rate_limited", type=job_type.name, until=until)
