"""Types as an operator sees them: what holds them, how they are doing; pausing and resuming."""

from __future__ import annotations

import logging

import msgspec

from jobqueued import clock
from jobqueued.config.faults import did_you_mean, quoted
from jobqueued.engine.parts import Shared
from jobqueued.engine.recent import Durations
from jobqueued.model.control import Control
from jobqueued.model.errors import NotFound
from jobqueued.model.job_type import JobType

log = logging.getLogger("jobqueued.engine")

_LONGEST_NAME = 128


class TypeState(msgspec.Struct, frozen=True, kw_only=True):
    """A type at one moment; `job_type` is None when it is gone from the configuration."""

    name: str
    job_type: JobType | None
    control: Control
    counts: dict[str, int]
    running: int
    rates: dict[str, float]
    """Events per second over the last minute."""
    durations: Durations

    @property
    def breaker(self) -> str:
        """`off`, `closed`, `open`, or `probing` while the job runs that tries whether it works."""
        if self.job_type is None or self.job_type.breaker is None:
            return "off"
        if self.control.breaker_since is None:
            return "closed"
        return "probing" if self.running > 0 else "open"


class Controls:
    """Every type that is configured, or of which there is anything on disk."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def names(self) -> list[str]:
        """In the order of the alphabet."""
        store = self._shared.store
        held = {name for name, each in store.controls.items() if each.paused_at is not None}
        return sorted({*self._shared.config.types, *store.counts.by_type(), *held})

    def all(self) -> list[TypeState]:
        """Every type."""
        counts = self._shared.store.counts.by_type()
        return [self._state(name, counts.get(name, {})) for name in self.names()]

    def one(self, name: str) -> TypeState:
        """One type."""
        known = self.names()
        if name not in known:
            shown = quoted(name[:_LONGEST_NAME])
            hint = did_you_mean(name[:_LONGEST_NAME], known)
            raise NotFound(f"there is no job type {shown}{hint}")
        return self._state(name, self._shared.store.counts.by_type().get(name, {}))

    async def pause(self, name: str, by: str, note: str | None) -> TypeState:
        """Start no more jobs of a type; one that is paused already stays so, with a newer note."""
        was_paused = self.one(name).control.paused_at is not None
        await self._shared.store.pause(name, by, note, clock.now())
        if note or not was_paused:
            log.info("type %s: paused by %s%s", name, by, f": {note}" if note else "")
        return self.one(name)

    async def resume(self, name: str, by: str) -> TypeState:
        """Start jobs of a type again."""
        was_paused = self.one(name).control.paused_at is not None
        await self._shared.store.resume(name)
        self._shared.dispatcher.wake()
        if was_paused:
            log.info("type %s: resumed by %s", name, by)
        return self.one(name)

    def _state(self, name: str, counts: dict[str, int]) -> TypeState:
        shared = self._shared
        return TypeState(
            name=name,
            job_type=shared.config.types.get(name),
            control=shared.gates.control(name),
            counts=counts,
            running=counts.get("processing", 0),
            rates=shared.recent.rates(name),
            durations=shared.recent.durations(name),
        )
