"""Deletes finished jobs when their time is over, a few at a time."""

from __future__ import annotations

from jobqueued import clock
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.store.interface import Retained

_LEAST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 3_600_000


class Retention(Part):
    """Sleeps until the next finished job has outlived its retention."""

    name = "retention"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared

    def finished(self) -> None:
        """A job has finished: it may be the first to go."""
        keep = self._shared.config.retention
        shortest = min(keep.completed, keep.dead, keep.cancelled)
        self.wake_at(clock.now() + max(shortest, _LEAST_PAUSE_MS))

    async def run_once(self) -> int | None:
        retained = self._retained()
        now = clock.now()
        if await self._shared.store.remove_outlived(retained, now):
            return now
        if await self._shared.store.give_back_space():
            return now
        following = await self._shared.store.next_outlived(retained)
        if following is None:
            return None
        return min(max(following, now + _LEAST_PAUSE_MS), now + _LONGEST_PAUSE_MS)

    def _retained(self) -> Retained:
        keep = self._shared.config.retention
        return Retained(
            {
                "completed": keep.completed,
                "dead": keep.dead,
                "discarded": keep.dead,
                "cancelled": keep.cancelled,
                "expired": keep.cancelled,
            },
            self._shared.config.queue.idempotency_window,
        )
