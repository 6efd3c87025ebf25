"""Leased jobs in the hands of this worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from jobqueued.client.models import LeasedJob
from jobqueued.worker.report import Report

BEATS_IN_A_LEASE = 3
LEAST_PAUSE = 1.0
"""Seconds between two beats of one lease, however little is left of it."""


class StopReason(StrEnum):
    """Why a handler has to stop."""

    LOST = "the lease is lost, or the time of the attempt is up"
    CANCELLED = "the job was cancelled"
    INTERRUPTED = "the worker was stopped"


@dataclass(slots=True, eq=False)
class Held:
    """A job from the moment it was leased until its outcome is recorded or its lease is lost.

    `beat_at` and `expires_at` are moments of this worker's monotonic clock; adding `skew` to a
    moment of the daemon's clock as it stood when the job was leased gives one of ours.
    """

    job: LeasedJob
    skew: float
    beat_at: float = 0.0
    expires_at: float = 0.0
    task: asyncio.Task[None] | None = None
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

    def renewed(self, seconds: float, now: float) -> None:
        """The lease runs that long from now; a date could be of a clock that has been set since."""
        self.expires_at = now + seconds
        self.beat_at = now + max((self.expires_at - now) / BEATS_IN_A_LEASE, LEAST_PAUSE)

    def stop(self, reason: StopReason) -> None:
        """Tell the handler to stop; the first reason stays, unless the lease is lost."""
        first = self.stopped is None
        if first or reason is StopReason.LOST:
            self.stopped = reason
        if first and self.task is not None:
            self.task.cancel()


def take(job: LeasedJob, now: float) -> Held:
    """A job that has just arrived: a moment ago the daemon's clock stood at `started_at`."""
    started = job.started_at or job.created_at
    held = Held(job, now - started.timestamp())
    held.renewed((job.lease.expires_at - started).total_seconds(), now)
    return held
