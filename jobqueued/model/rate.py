"""How often jobs of a type may start: a bucket of tokens, kept as one moment.

The time that has passed since `spent_until` is what there is to spend: a token costs the time in
which one comes, and no more is saved up than one burst. Everything is whole nanoseconds; a price is
rounded up, so that a rate is never exceeded.
"""

from __future__ import annotations

import msgspec

_NS = 1_000_000
_SECOND_NS = 1_000_000_000


class Rate(msgspec.Struct, frozen=True):
    """So many jobs in so many milliseconds; at once as many as come in a second, at least one."""

    count: int
    per: int

    def price(self, tokens: int) -> int:
        """The time in which so many tokens come, in nanoseconds."""
        return -(-tokens * self.per * _NS // self.count)

    def tokens(self, spent_until: int | None, now: int) -> int:
        """How many jobs may start now (milliseconds since the epoch)."""
        return self._saved(spent_until, now) * self.count // (self.per * _NS)

    def spend(self, tokens: int, spent_until: int | None, now: int) -> int:
        """Until when time is spent after so many jobs have started now."""
        return now * _NS - self._saved(spent_until, now) + self.price(tokens)

    def next_token_at(self, spent_until: int | None, now: int) -> int:
        """The first millisecond in which a job may start, where none may now."""
        missing = max(0, self.price(1) - self._saved(spent_until, now))
        return now - (-missing // _NS)

    def _saved(self, spent_until: int | None, now: int) -> int:
        """The time there is to spend; none where the clock was set back."""
        burst = max(_SECOND_NS, self.price(1))
        if spent_until is None:
            return burst
        return max(0, min(now * _NS - spent_until, burst))
