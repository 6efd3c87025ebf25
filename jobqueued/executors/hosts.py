"""Hosts that asked for a pause: nothing is sent to them until it is over."""

from __future__ import annotations

from jobqueued import clock

LONGEST_REST = 3_600_000
MOST_HOSTS = 10_000


class Hosts:
    """Origins (scheme, host and port) at rest, known to every job that goes there."""

    def __init__(self, most: int = MOST_HOSTS) -> None:
        self._most = most
        self._until: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many origins are kept."""
        return len(self._until)

    def rest(self, origin: str, wait: int, longest: int = LONGEST_REST) -> None:
        """Leave an origin alone for `wait` milliseconds; a pause is never made shorter."""
        now = clock.now()
        until = now + min(wait, longest, LONGEST_REST)
        if until <= max(now, self.resting_until(origin) or 0):
            return
        self._until.pop(origin, None)
        self._make_room(now)
        self._until[origin] = until

    def resting_until(self, origin: str) -> int | None:
        """Until when an origin is to be left alone, or None when it is not."""
        until = self._until.get(origin)
        if until is None:
            return None
        # Further away than any pause can be: somebody set the clock back.
        if not 0 < until - clock.now() <= LONGEST_REST:
            del self._until[origin]
            return None
        return until

    def _make_room(self, now: int) -> None:
        if len(self._until) < self._most:
            return
        self._until = {origin: until for origin, until in self._until.items() if until > now}
        if len(self._until) >= self._most:
            del self._until[min(self._until, key=self._until.__getitem__)]
