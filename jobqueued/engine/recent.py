"""How each type has been doing lately, as far as this process knows."""

from __future__ import annotations

from collections import defaultdict, deque

import msgspec

from jobqueued.engine.meter import Meter

EVENTS = ("submitted", "completed", "failed")
_MOST_DURATIONS = 500


class Durations(msgspec.Struct, frozen=True):
    """How long the last attempts that completed ran, in milliseconds; None without any."""

    count: int
    p50: int | None
    p95: int | None


class Recent:
    """Events per second and durations, by type."""

    def __init__(self) -> None:
        self._meters: defaultdict[str, Meter] = defaultdict(Meter)
        self._durations: defaultdict[str, deque[int]] = defaultdict(_no_durations)

    def count(self, job_type: str, event: str) -> None:
        """One of `EVENTS` has happened."""
        self._meters[job_type].count(event)

    def completed(self, job_type: str, milliseconds: int) -> None:
        """An attempt has completed after so long."""
        self.count(job_type, "completed")
        self._durations[job_type].append(max(0, milliseconds))

    def rates(self, job_type: str) -> dict[str, float]:
        """How often each event happens in a second, over the last minute."""
        meter = self._meters.get(job_type)
        return {event: meter.per_second(event) if meter else 0.0 for event in EVENTS}

    def durations(self, job_type: str) -> Durations:
        """What the durations kept come to."""
        kept = sorted(self._durations.get(job_type, ()))
        if not kept:
            return Durations(0, None, None)
        return Durations(len(kept), kept[len(kept) // 2], kept[len(kept) * 95 // 100])


def _no_durations() -> deque[int]:
    return deque(maxlen=_MOST_DURATIONS)
