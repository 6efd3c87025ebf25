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
    heard: float
    """When the worker last showed that it lives."""
    given_up: bool = False
    """Whether the attempt is being ended: what is heard now comes too late."""


class Deadlines:
    """By lease token; those given out by an earlier daemon become known when they matter."""

    def __init__(self) -> None:
        self._known: dict[str, Deadline] = {}
        self._began = clock.monotonic()

    def begin(self, token: str, lease: int, timeout: int) -> None:
        """A job has been leased, for so many milliseconds and no longer than its timeout."""
        now = clock.monotonic()
        self._known[token] = Deadline(now + lease / 1000, now + timeout / 1000, now)

    def adopt(self, token: str, lease: int, left: int) -> None:
        """A job leased by an earlier daemon: its worker has a whole lease to find this one."""
        if token not in self._known:
            attempt = clock.monotonic() + left / 1000
            until = min(self._began + lease / 1000, attempt)
            self._known[token] = Deadline(until, attempt, self._began)

    def extend(self, token: str, wished: int, left: int) -> int | None:
        """Renew a lease: for how many milliseconds, or None when its attempt is being ended.

        `left` holds for an attempt not known here.
        """
        now = clock.monotonic()
        known = self._known.setdefault(token, Deadline(now, now + left / 1000, now))
        if known.given_up:
            return None
        known.heard = now
        known.lease = min(now + wished / 1000, known.attempt)
        return round((known.lease - now) * 1000)

    def left(self, token: str) -> int | None:
        """How many milliseconds a lease still runs; None when it is not known here."""
        known = self._known.get(token)
        return None if known is None else round((known.lease - clock.monotonic()) * 1000)

    def silence(self, token: str) -> float | None:
        """For how many seconds nothing was heard of a lease; None when it is not known here."""
        known = self._known.get(token)
        return None if known is None else clock.monotonic() - known.heard

    def is_over(self, token: str) -> bool:
        """Whether the time of the whole attempt is up."""
        known = self._known.get(token)
        return known is not None and known.attempt <= clock.monotonic()

    def run_out(self, moment: float) -> list[str]:
        """The leases that had run out at this moment and were not renewed since."""
        return [token for token, known in self._known.items() if known.lease <= moment]

    def has_run_out(self, token: str, moment: float) -> bool:
        """Whether one had run out at this moment and was not renewed since."""
        known = self._known.get(token)
        return known is not None and known.lease <= moment

    def give_up(self, token: str) -> None:
        """The attempt is being ended: it is not renewed any more."""
        known = self._known.get(token)
        if known is not None:
            known.given_up = True

    def next(self) -> int | None:
        """In how many milliseconds the next lease runs out."""
        first = min((known.lease for known in self._known.values()), default=None)
        return None if first is None else max(0, round((first - clock.monotonic()) * 1000))

    def forget(self, token: str) -> None:
        """The attempt is over."""
        self._known.pop(token, None)
