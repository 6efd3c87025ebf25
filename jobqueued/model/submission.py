"""A job as asked for: what the caller sent, before defaults."""

from __future__ import annotations

import msgspec

from jobqueued.model.job import Job
from jobqueued.model.outcome import Outcome


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Checked field by field; None means the caller left it out. Durations are milliseconds."""

    type: str
    payload: bytes = b"{}"
    priority: int | None = None
    max_retries: int | None = None
    delay: int | None = None
    run_at: int | None = None
    expires_in: int | None = None
    expires_at: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    key: str | None = None


class Submitted(msgspec.Struct, frozen=True):
    """A job that is on disk; `replayed` when an idempotency key found it there already."""

    job: Job
    replayed: bool


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of jobs; None or empty means any. Newest first."""

    statuses: tuple[str, ...] = ()
    type: str | None = None
    batch_id: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    key: str | None = None
    created_after: int | None = None
    created_before: int | None = None
    before_id: str | None = None
    limit: int = 50

    @property
    def has_label(self) -> bool:
        """Whether it asks for the jobs of a label, which are few and quickly found."""
        labels = (self.batch_id, self.correlation_id, self.idempotency_key, self.key)
        return any(label is not None for label in labels)


class JobPage(msgspec.Struct, frozen=True):
    """One page of a list; `next_cursor` is the `before_id` of the next page."""

    jobs: list[Job]
    next_cursor: str | None


class Cancelled(msgspec.Struct, frozen=True):
    """What cancelling by filter came to; `stopping` of the jobs were running.

    `more` when others may fit, of those before `cursor`.
    """

    count: int
    ids: list[str]
    stopping: int
    more: bool
    cursor: str | None


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life from whoever holds a lease token."""

    token: str
    extend: int | None = None
    percent: float | None = None
    message: str | None = None


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A remote worker's wish for jobs."""

    types: tuple[str, ...]
    most: int
    worker: str
    lease: int | None = None
    wait: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a remote worker's attempt came to."""

    token: str
    outcome: Outcome


class BeatAnswer(msgspec.Struct, frozen=True):
    """`ok`, `stale` or `cancelled`; until when the lease now runs, and for how long from now."""

    token: str
    status: str
    expires_at: int | None
    expires_in: int | None = None
