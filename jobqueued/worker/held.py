"""Leased jobs in the hands of this worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from jobqueued import clock
from jobqueued.client.models import LeasedJob
from jobqueued.worker.report import Report

BEATS_IN_A_LEASE = 3
LEAST_PAUSE = 1.0
"""Seconds between two beats of one lease, unless hardly more is left of it."""


class StopReason(StrEnum):
    """Why a handler has to stop."""

    LOST = "the lease is lost, or the time of the attempt is up"
    CANCELLED = "the job was cancelled"
    INTERRUPTED = "the worker was stopped"


class TooLate(Exception):
    """The handler was not begun: somebody else may be running the job by now."""


@dataclass(slots=True, eq=False)
class Held:
    """A job from the moment it was leased until its outcome is recorded or its lease is lost.

    `beat_at` and `expires_at` are moments of this worker's monotonic clock: the lease does not run
    out before `expires_at`. Adding `skew` to a moment of the daemon's clock as it stood when the
    job was leased gives one of ours.
    """

    job: LeasedJob
    skew: float
    beat_at: float = 0.0
    expires_at: float = 0.0
    task: asyncio.Task[None] | None = None
    is_begun: bool = False
    report: Report | None = None
    stopped: StopReason | None = None
    progress: tuple[float, str | None] | None = None
    extend: float | None = None

    @property
    def token(self) -> str:
        return self.job.lease.token

    @property
    def has_news(self) -> bool:
        """Whether the daemon should be told something before the next beat is due."""
        return self.progress is not None or self.extend is not None

    def renewed(self, expires_at: float, now: float) -> None:
        """The lease surely runs until then."""
        left = expires_at - now
        self.expires_at = expires_at
        self.beat_at = now + max(left / BEATS_IN_A_LEASE, min(LEAST_PAUSE, left / 2))

    def check(self) -> None:
        """Raise unless the handler may begin at this moment."""
        if self.expires_at <= clock.monotonic():
            self.stopped = StopReason.LOST
        if self.stopped is not None:
            raise TooLate(str(self.stopped))

    def stop(self, reason: StopReason) -> None:
        """Tell the handler to stop; the first reason stays, unless the lease is lost."""
        first = self.stopped is None
        if first or reason is StopReason.LOST:
            self.stopped = reason
        if first and self.is_begun and self.task is not None:
            self.task.cancel()


def take(job: LeasedJob, asked_at: float, now: float) -> Held:
    """A job that has arrived; on its way it, or this process, may have stood still for long.

    All that is sure is that it was not leased before it was asked for.
    """
    expires_at = asked_at + job.lease.expires_in_seconds
    held = Held(job, expires_at - job.lease.expires_at.timestamp())
    held.renewed(expires_at, now)
    return held
