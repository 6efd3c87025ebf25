"""Counting what happens: totals since the start and a rate over the last minute."""

from __future__ import annotations

from collections import Counter

from jobqueued import clock

_SECONDS = 60


class Meter:
    """Counts events by name."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._slots: list[tuple[int, Counter[str]]] = [(0, Counter())] * _SECONDS

    def count(self, name: str, number: int = 1) -> None:
        self.totals[name] += number
        second = int(clock.monotonic())
        place = second % _SECONDS
        if self._slots[place][0] != second:
            self._slots[place] = (second, Counter())
        self._slots[place][1][name] += number

    def per_second(self, name: str) -> float:
        """Over the last minute."""
        since = int(clock.monotonic()) - _SECONDS
        recent = sum(counts[name] for second, counts in self._slots if second > since)
        return round(recent / _SECONDS, 3)
