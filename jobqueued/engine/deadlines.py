"""When leases elsewhere run out, by the clock that nobody can set.

On disk they are moments of the wall clock, for people and for the next daemon. While this one runs,
a clock set forward must not take jobs from workers that live, nor one set back keep the jobs of
those that died.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobqueued import clock


@dataclass(slots=True)
class Deadline:
    """Moments of the monotonic clock."""

    lease: float
    attempt: float


class Deadlines:
    """By lease token; those given out by an earlier daemon become known with their first beat."""

    def __init__(self) -> None:
        self._known: dict[str, Deadline] = {}

    def begin(self, token: str, lease: int, timeout: int) -> None:
        """A job has been leased, for so many milliseconds and no longer than its timeout."""
        now = clock.monotonic()
        self._known[token] = Deadline(now + lease / 1000, now + timeout / 1000)

    def extend(self, token: str, wished: int, left: int) -> int:
        """Renew a lease: for how many milliseconds; `left` holds for an attempt not known here."""
        now = clock.monotonic()
        known = self._known.setdefault(token, Deadline(now, now + left / 1000))
        known.lease = min(now + wished / 1000, known.attempt)
        return round((known.lease - now) * 1000)

    def left(self, token: str) -> int | None:
        """How many milliseconds a lease still runs; None when it is not known here."""
        known = self._known.get(token)
        return None if known is None else round((known.lease - clock.monotonic()) * 1000)

    def is_over(self, token: str) -> bool:
        """Whether the time of the whole attempt is up."""
        known = self._known.get(token)
        return known is not None and known.attempt <= clock.monotonic()

    def run_out(self) -> list[str]:
        """The leases that have run out."""
        now = clock.monotonic()
        return [token for token, known in self._known.items() if known.lease <= now]

    def next(self) -> int | None:
        """In how many milliseconds the next lease runs out."""
        first = min((known.lease for known in self._known.values()), default=None)
        return None if first is None else max(0, round((first - clock.monotonic()) * 1000))

    def forget(self, token: str) -> None:
        """The attempt is over."""
        self._known.pop(token, None)
