"""The job, its states, and which state may follow which."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Status(StrEnum):
    """Where a job is in its life; always exactly one of these."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    PROCESSING = "processing"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DEAD = "dead"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


WAITING = frozenset({Status.SCHEDULED, Status.PENDING, Status.RETRYING})
CANCELLABLE = WAITING | {Status.PROCESSING}
TERMINAL = frozenset(
    {Status.COMPLETED, Status.DEAD, Status.DISCARDED, Status.CANCELLED, Status.EXPIRED}
)

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.SCHEDULED: frozenset({Status.PENDING, Status.CANCELLED, Status.EXPIRED}),
    Status.PENDING: frozenset({Status.PROCESSING, Status.CANCELLED, Status.EXPIRED}),
    Status.RETRYING: frozenset({Status.PENDING, Status.CANCELLED, Status.EXPIRED}),
    Status.PROCESSING: frozenset(
        {
            Status.COMPLETED,
            Status.RETRYING,
            Status.PENDING,
            Status.SCHEDULED,
            Status.DEAD,
            Status.CANCELLED,
        }
    ),
    Status.DEAD: frozenset({Status.PENDING, Status.SCHEDULED, Status.DISCARDED}),
    Status.COMPLETED: frozenset(),
    Status.DISCARDED: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.EXPIRED: frozenset(),
}

MAX_PRIORITY = 9
MAX_RETRIES = 20
MAX_LABEL = 256
"""Characters in an idempotency key, a correlation id or a key."""
MAX_RESULT = 64 * 1024
MAX_ERROR = 4096
"""Characters kept of a failure's text."""
TYPE_NAME = r"[a-z0-9][a-z0-9_.-]{0,127}"


class Progress(msgspec.Struct, frozen=True):
    """How far a running job says it is."""

    percent: float
    message: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is on disk. Times are milliseconds since the epoch, JSON is text as sent."""

    id: str
    type: str
    status: Status
    payload: bytes
    priority: int
    max_retries: int
    attempt: int = 0
    failures: int = 0
    created_at: int
    run_at: int
    started_at: int | None = None
    finished_at: int | None = None
    expires_at: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    key: str | None = None
    batch_id: str | None = None
    schedule: str | None = None
    service: str | None = None
    tenant: str | None = None
    worker: str | None = None
    lease_expires_at: int | None = None
    progress: Progress | None = None
    result: bytes | None = None
    last_error: str | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL


def first_status(created_at: int, run_at: int) -> Status:
    """Where the life of a job begins."""
    return Status.SCHEDULED if run_at > created_at else Status.PENDING


class Lease(msgspec.Struct, frozen=True):
    """The right of one attempt to record the outcome of one job."""

    job_id: str
    attempt: int
    token: str


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A job handed to a worker: what it needs to run, and the lease it runs under.

    `job` is the whole of it, for those who run it elsewhere.
    """

    lease: Lease
    type: str
    payload: bytes
    payload_intact: bool
    priority: int
    max_retries: int
    failures: int
    losses: int
    created_at: int
    started_at: int
    correlation_id: str | None
    key: str | None
    tenant: str | None
    pool: str
    worker: str
    job: Job | None = None


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A processing job seen from outside its attempt: by recovery, the reaper, remote workers."""

    lease: Lease
    type: str
    max_retries: int
    failures: int
    losses: int
    started_at: int
    cancel_requested: bool


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a job, finished or still running."""

    number: int
    worker: str | None
    started_at: int
    finished_at: int | None
    outcome: str | None
    error: str | None
    exit_code: int | None
    http_status: int | None
    max_rss_bytes: int | None
    cpu_ms: int | None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """How far the jobs of one batch are."""

    batch_id: str
    total: int
    counts: dict[str, int]
    created_at: int
    finished_at: int | None
