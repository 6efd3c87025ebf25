"""What a daemon answers, as typed values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from jobqueued.model.job import TERMINAL, Progress, Status


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was when the daemon answered; `payload` and `result` are read when asked for."""

    id: str
    type: str
    status: Status
    payload_json: Raw = msgspec.field(name="payload")
    priority: int
    max_retries: int
    attempt: int
    failures: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    key: str | None = None
    batch_id: str | None = None
    schedule: str | None = None
    service: str | None = None
    tenant: str | None = None
    worker: str | None = None
    lease_expires_at: datetime | None = None
    progress: Progress | None = None
    result_json: Raw = msgspec.field(name="result", default=Raw(b"null"))
    last_error: str | None = None

    @property
    def payload(self) -> Any:
        """The payload; whole numbers keep every digit."""
        return msgspec.json.decode(self.payload_json)

    @property
    def result(self) -> Any:
        """What the handler gave back, or None."""
        return msgspec.json.decode(self.result_json)

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.status in TERMINAL


class Lease(msgspec.Struct, frozen=True):
    """The right to report what became of an attempt, and until when it holds."""

    token: str
    expires_at: datetime
    deadline: datetime
    expires_in_seconds: float
    """Counted from the moment the jobs were asked for."""


class LeasedJob(Job, frozen=True, kw_only=True):
    """A job that was handed to a remote worker."""

    lease: Lease


class LeasedJobs(msgspec.Struct, frozen=True):
    """What a remote worker is given to do."""

    jobs: list[LeasedJob]


class LeaseState(msgspec.Struct, frozen=True):
    """What became of a lease: `ok`, `stale` or `cancelled`; for how long from the question."""

    token: str
    status: str
    expires_at: datetime | None = None
    expires_in_seconds: float | None = None


class LeaseStates(msgspec.Struct, frozen=True):
    """Leases in the order they were sent."""

    leases: list[LeaseState]


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs of a list, and where the next page begins."""

    jobs: list[Job]
    next_cursor: str | None = None


class NewBatch(msgspec.Struct, frozen=True):
    """Jobs in the order they were sent; `replayed` are the places of those that existed."""

    batch_id: str
    jobs: list[Job]
    replayed: list[int] = []


class Batch(msgspec.Struct, frozen=True):
    """How far the jobs of one batch are; `done` when all of them are terminal."""

    batch_id: str
    total: int
    counts: dict[str, int]
    done: bool
    created_at: datetime
    finished_at: datetime | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a job; outcome and finish are None while it runs."""

    number: int
    started_at: datetime
    worker: str | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    outcome: str | None = None
    error: str | None = None
    exit_code: int | None = None
    http_status: int | None = None
    max_rss_bytes: int | None = None
    cpu_ms: int | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did to a job; `attempt` is how many attempts there were by then."""

    number: int
    at: datetime
    attempt: int
    action: str
    actor: str
    note: str | None = None
    edited: bool = False
    before_json: Raw = msgspec.field(name="payload_before", default=Raw(b"null"))

    @property
    def payload_before(self) -> Any:
        """The payload as it was, where `edited` says that it was changed."""
        return msgspec.json.decode(self.before_json)


class History(msgspec.Struct, frozen=True):
    """Attempts and what people did to a job, first to last."""

    attempts: list[Attempt]
    changes: list[Change] = []


class Pause(msgspec.Struct, frozen=True):
    """Since when a type is paused, by whom and why."""

    since: datetime
    by: str
    note: str | None = None


class Breaker(msgspec.Struct, frozen=True):
    """`closed`, `open`, `probing` or `off`; `until` is when the next job is tried."""

    state: str
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None


class Durations(msgspec.Struct, frozen=True):
    """How long the last attempts that completed ran."""

    count: int = 0
    p50_ms: int | None = None
    p95_ms: int | None = None


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """A job type: how it is set up, what holds it, how it is doing.

    Settings are None for a type that has jobs but is gone from the configuration;
    `payload_schema` says whether there is one.
    """

    name: str
    configured: bool
    breaker: Breaker
    counts: dict[str, int]
    running: int
    kind: str | None = None
    pool: str | None = None
    paused: Pause | None = None
    max_running: int | None = None
    max_running_per_key: int | None = None
    rate: str | None = None
    rates: dict[str, float] = {}
    durations: Durations = Durations()
    timeout: str | None = None
    max_retries: int | None = None
    priority: int | None = None
    confirm_replay: bool | None = None
    payload_schema: bool | None = None


class Types(msgspec.Struct, frozen=True):
    """Types in the order of the alphabet."""

    types: list[Type]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a job is not running; data that it does not have is None."""

    code: str
    detail: str
    type: str
    run_at: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    by: str | None = None
    note: str | None = None
    reason: str | None = None
    failures: int | None = None
    last_error: str | None = None
    running: int | None = None
    limit: int | None = None
    pool: str | None = None
    running_ids: list[str] = []
    key: str | None = None
    ahead: int | None = None
    more: bool = False


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is not running; no reasons while it waits means that it is about to start."""

    id: str
    type: str
    status: Status
    detail: str
    reasons: list[Reason]
    ahead: int | None = None
    more_ahead: bool = False
    estimated_start: datetime | None = None
    unknown_because: str | None = None
    expires_at: datetime | None = None
    worker: str | None = None
    since: datetime | None = None


class Backlog(msgspec.Struct, frozen=True):
    """How many waiting jobs have one reason; with no code nothing holds them."""

    code: str | None
    jobs: int
    detail: str


class TypeWhy(msgspec.Struct, frozen=True):
    """What holds a type, and its waiting jobs by what they wait for."""

    type: str
    gates: list[Reason]
    backlog: list[Backlog]


class DeadJob(Job, frozen=True, kw_only=True):
    """A dead job with its history."""

    attempts: list[Attempt]
    changes: list[Change] = []


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead jobs run again, oldest first, or would in a dry run.

    `skipped` are those whose idempotency key a newer job has, `dead` how many there were of the
    type; where there are `more`, the next call begins at `next_cursor`.
    """

    count: int
    ids: list[str]
    skipped: int
    dead: int
    dry_run: bool
    confirm_needed: bool
    more: bool
    next_cursor: str | None = None
