"""How often jobs of a type may start: a bucket of tokens, kept as one moment.

The time that has passed since `spent_until` is what there is to spend: a token costs the time in
which one comes, and no more is saved up than one burst. The moment is a fraction of milliseconds,
because most rates do not divide them: nothing is rounded, so nothing is lost or won over time.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

_SECOND = 1_000


class Rate(msgspec.Struct, frozen=True):
    """So many jobs in so many milliseconds; at once as many as come in a second, at least one.

    Reckoned in whole parts of a millisecond, `count` of them in each: a token costs `per` of them.
    """

    count: int
    per: int

    def tokens(self, spent_until: Fraction | None, now: int) -> int:
        """How many jobs may start now (milliseconds since the epoch)."""
        return self._saved(spent_until, now) // self.per

    def spend(self, tokens: int, spent_until: Fraction | None, now: int) -> Fraction:
        """Until when time is spent after so many jobs have started now."""
        left = self._saved(spent_until, now) - tokens * self.per
        return Fraction(now * self.count - left, self.count)

    def next_token_at(self, spent_until: Fraction | None, now: int) -> int:
        """The first millisecond in which a job may start."""
        missing = max(0, self.per - self._saved(spent_until, now))
        return now - (-missing // self.count)

    def _saved(self, spent_until: Fraction | None, now: int) -> int:
        """What there is to spend, in parts; nothing while the clock is behind what was spent."""
        burst = max(_SECOND * self.count, self.per)
        if spent_until is None:
            return burst
        # Under another rate the parts were others: rounded up, once.
        spent = -(-spent_until.numerator * self.count // spent_until.denominator)
        return max(0, min(now * self.count - spent, burst))
