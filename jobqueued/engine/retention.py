"""Deletes finished jobs when their time is over, a few at a time."""

from __future__ import annotations

from math import ceil

from jobqueued import clock
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.store.interface import Cleared, Retained

_LEAST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 3_600_000

FEWEST, MOST = 20, 1_000
"""Jobs deleted in one go."""
BUSY_SECONDS, QUIET_SECONDS = 0.0006, 0.003
"""How long one go may hold up others who write, and those who might."""
_SHARE = 0.025
"""Of the writer's time, while others write too."""
_AFTERMATH = 2.0
"""What one go costs in all: its COMMIT and the copying of the log take as long again."""
_LONGEST_REST_MS = 500
"""However slow the disk is, old jobs go."""
_SETTLED_SECONDS = 2.0
"""Nobody else has written for so long: nobody is held up."""


class Pace:
    """How much to clear away in one go, and how long to rest in between."""

    def __init__(self, commits: int) -> None:
        self._jobs_a_second = FEWEST / BUSY_SECONDS
        self._commits = commits
        self._others_wrote = clock.monotonic()

    @property
    def seconds(self) -> float:
        """How long one go may take."""
        return QUIET_SECONDS if self._is_quiet() else BUSY_SECONDS

    @property
    def most(self) -> int:
        """How many jobs can be deleted in that time."""
        return min(max(int(self._jobs_a_second * self.seconds), FEWEST), MOST)

    def fit(self, cleared: Cleared) -> None:
        """Remember how fast jobs go, but not that of a few small ones: big ones may be next."""
        found = cleared.number / max(cleared.seconds, 1e-6)
        self._jobs_a_second = min(found, 2 * self._jobs_a_second)

    def look(self, commits: int, own: int) -> None:
        """Note whether others have written since the last look, beside our own."""
        if commits > self._commits + own:
            self._others_wrote = clock.monotonic()
        self._commits = commits

    def rest(self, cleared: Cleared) -> int:
        """Milliseconds until the next go; none when nobody else writes."""
        if self._is_quiet():
            return 0
        rest = 1000 * _AFTERMATH * cleared.seconds * (1 / _SHARE - 1)
        return min(ceil(rest), _LONGEST_REST_MS)

    def _is_quiet(self) -> bool:
        return clock.monotonic() - self._others_wrote > _SETTLED_SECONDS


class Retention(Part):
    """Sleeps until the next finished job has outlived its retention."""

    name = "retention"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared
        self._pace = Pace(shared.store.commits)

    def finished(self) -> None:
        """A job has finished: it may be the first to go."""
        keep = self._shared.config.retention
        shortest = min(keep.completed, keep.dead, keep.cancelled)
        self.wake_at(clock.now() + max(shortest, _LEAST_PAUSE_MS))

    async def figures(self) -> dict[str, object]:
        """What the file holds of finished jobs, and until when, for `jobqueued status`."""
        store, retained = self._shared.store, self.retained()
        held = await store.holdings(retained)
        counts = store.counts.by_status()
        outcomes = {
            status: {
                "keep_seconds": keep / 1000,
                "jobs": counts.get(status, 0),
                "oldest_finished_at": _moment(held.oldest_finished.get(status)),
            }
            for status, keep in retained.keep.items()
        }
        following = _moment(held.next_outlived)
        kept = {"outcomes": outcomes, "next_deletion_at": following}
        return {"free_bytes": held.free_bytes, "retention": kept}

    async def run_once(self) -> int | None:
        store, retained, now = self._shared.store, self.retained(), clock.now()
        self._pace.look(store.commits, own=0)
        cleared = await store.remove_outlived(retained, now, self._pace.most)
        self._pace.look(store.commits, own=1)
        if cleared.number:
            self._pace.fit(cleared)
        else:
            cleared = await store.give_back_space(self._pace.seconds)
            self._pace.look(store.commits, own=1)
        if cleared.number:
            return clock.now() + self._pace.rest(cleared)
        following = await store.next_outlived(retained)
        if following is None:
            return None
        return min(max(following, now + _LEAST_PAUSE_MS), now + _LONGEST_PAUSE_MS)

    def retained(self) -> Retained:
        """How long finished jobs stay, by status."""
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


def _moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else clock.rfc3339(milliseconds)
