"""What holds a type of job beside its settings: a pause, its breaker, what its rate has spent."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from jobqueued.model.rate import Rate


class Breaker(msgspec.Struct, frozen=True):
    """When too many attempts of a type fail for more to be worth it. Durations are milliseconds."""

    error_rate: float = 0.8
    window: int = 300_000
    min_attempts: int = 20
    probe_every: int = 60_000


class Room(msgspec.Struct, frozen=True):
    """How many jobs of a type may run at once, how long leases run, how often jobs may start.

    `probe_every` is how often an open breaker lets one through; without it none is in the way.
    """

    most: int
    lease: int
    rate: Rate | None = None
    probe_every: int | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one type, as it is on disk. Moments are milliseconds since the epoch."""

    paused_at: int | None = None
    paused_by: str | None = None
    paused_note: str | None = None
    breaker_since: int | None = None
    breaker_probe_at: int | None = None
    breaker_reason: str | None = None
    spent_until: Fraction | None = None
    """What the rate has spent."""

    def left(self, room: Room, running: int, now: int) -> int:
        """How many more jobs may start now."""
        if self.paused_at is not None:
            return 0
        left = room.most - running
        if self.breaker_since is not None and room.probe_every is not None:
            is_due = self.is_probe_due(room.probe_every, now)
            left = min(left, 1 if is_due and not running else 0)
        if room.rate is not None:
            left = min(left, room.rate.tokens(self.spent_until, now))
        return max(0, left)

    def started(self, room: Room, number: int, now: int) -> Control:
        """The state after so many jobs have started."""
        spent, probe = self.spent_until, self.breaker_probe_at
        if room.rate is not None:
            spent = room.rate.spend(number, spent, now)
        if room.probe_every is not None and self.breaker_since is not None:
            probe = now + room.probe_every
        if (spent, probe) == (self.spent_until, self.breaker_probe_at):
            return self
        return msgspec.structs.replace(self, spent_until=spent, breaker_probe_at=probe)

    def is_probe_due(self, probe_every: int, now: int) -> bool:
        """Whether an open breaker lets a probe through.

        One that is further off than the next may be was meant for a clock that was set back since,
        or for a longer `probe_every`.
        """
        return not now < self.probe_at <= now + probe_every

    @property
    def probe_at(self) -> int:
        """When an open breaker lets the next probe through."""
        return self.breaker_probe_at or 0

    def is_ahead(self, now: int) -> bool:
        """Whether something is said to have happened later than now: the clock was set back."""
        spent = self.spent_until is not None and self.spent_until > now
        return spent or (self.breaker_since or 0) > now

    def set_back(self, now: int) -> Control:
        """The state after the clock was set back: nothing saved up, nothing owed."""
        spent, since, probe = self.spent_until, self.breaker_since, self.breaker_probe_at
        if since is not None and since > now:
            probe = now + max(0, self.probe_at - since)
            since = now
        return msgspec.structs.replace(
            self,
            spent_until=None if spent is None else min(spent, Fraction(now)),
            breaker_since=since,
            breaker_probe_at=probe,
        )


OPEN_TO_ALL = Control()
"""A type of which nothing is on disk."""
