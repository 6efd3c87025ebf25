"""Stops a type whose attempts fail too often, and lets it go on when one works again."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from jobqueued import clock
from jobqueued.config import format_duration
from jobqueued.engine.parts import Shared
from jobqueued.model.control import Breaker
from jobqueued.model.errors import StoreError
from jobqueued.model.job import Claimed, Held
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import FAILURES

log = logging.getLogger("jobqueued.engine")

_FAILURES = FAILURES - {OutcomeKind.LOST}
"""A loss tells of the worker, or of this daemon, and nothing of what the jobs of a type do."""
_SLICES = 60
"""A window moves on in so many steps."""
_LONGEST_REASON = 200


@dataclass(slots=True)
class Slice:
    """What ended in a part of the window, which began at a moment in milliseconds."""

    began: int
    ended: int = 0
    failed: int = 0


class Window:
    """How many attempts of a type ended and failed lately."""

    def __init__(self) -> None:
        self._slices: deque[Slice] = deque()

    def add(self, failed: bool, window: int, now: int) -> None:
        """One more has ended."""
        self._forget(window, now)
        if not self._slices or (now - self._slices[-1].began) * _SLICES >= window:
            self._slices.append(Slice(now))
        self._slices[-1].ended += 1
        self._slices[-1].failed += failed

    def ended_and_failed(self, window: int, now: int) -> tuple[int, int]:
        """Within the last `window` milliseconds."""
        self._forget(window, now)
        ended = sum(each.ended for each in self._slices)
        return ended, sum(each.failed for each in self._slices)

    def _forget(self, window: int, now: int) -> None:
        while self._slices and now - self._slices[0].began >= window:
            self._slices.popleft()


class Breakers:
    """Hears of every attempt that ended."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._windows: dict[str, Window] = {}

    async def heed(self, job: Claimed | Held, outcome: Outcome) -> None:
        """An attempt has ended: open or close the breaker of its type where that is due."""
        job_type = self._shared.config.types.get(job.type)
        breaker = None if job_type is None else job_type.breaker
        failed = outcome.kind in _FAILURES
        if breaker is None or not (failed or outcome.kind is OutcomeKind.COMPLETED):
            return
        since = self._shared.gates.control(job.type).breaker_since
        try:
            if since is None:
                await self._weigh(job.type, breaker, failed, outcome)
            elif not failed and job.started_at > since:
                await self._close(job.type, since)
        except StoreError as error:
            log.error("the breaker of type %s stays as it is: %s", job.type, error)

    async def _weigh(self, name: str, breaker: Breaker, failed: bool, outcome: Outcome) -> None:
        # By the clock that nobody can set.
        now = round(clock.monotonic() * 1000)
        window = self._windows.setdefault(name, Window())
        window.add(failed, breaker.window, now)
        if failed:
            ended, failures = window.ended_and_failed(breaker.window, now)
            if ended >= breaker.min_attempts and failures >= breaker.error_rate * ended:
                within = format_duration(breaker.window)
                text = f"{failures} of {ended} attempts failed within {within}"
                await self._open(name, breaker, f"{text}, the last: {_first_line(outcome)}")

    async def _open(self, name: str, breaker: Breaker, reason: str) -> None:
        shared, now = self._shared, clock.now()
        if await shared.store.open_breaker(name, reason, now, now + breaker.probe_every):
            self._windows.pop(name, None)
            shared.meter.count("breaker_opened")
            every = format_duration(breaker.probe_every)
            log.warning("type %s: breaker open, one job is tried every %s: %s", name, every, reason)

    async def _close(self, name: str, since: int) -> None:
        shared = self._shared
        if await shared.store.close_breaker(name, since):
            self._windows.pop(name, None)
            shared.meter.count("breaker_closed")
            log.warning("type %s: breaker closed, a job has worked again", name)


def _first_line(outcome: Outcome) -> str:
    line = (outcome.error or str(outcome.kind)).partition("\n")[0]
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
