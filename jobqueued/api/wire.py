"""The model as JSON; field names and order are the contract's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from jobqueued import clock
from jobqueued.model.change import BulkReplayed, Change
from jobqueued.model.job import Attempt, Batch, Job
from jobqueued.model.submission import Cancelled, JobPage, Submitted

encode = msgspec.json.Encoder().encode

_time = clock.rfc3339


class WireProgress(msgspec.Struct, rename={"text": "message"}):
    """How far a running job says it is."""

    percent: float
    text: str | None


class WireJob(msgspec.Struct, rename={"kind": "type"}):
    """A job; times are RFC 3339 UTC, payload and result are any JSON value."""

    id: str
    kind: str
    status: str
    payload: Raw
    priority: int
    max_retries: int
    attempt: int
    failures: int
    created_at: str
    run_at: str
    started_at: str | None
    finished_at: str | None
    expires_at: str | None
    idempotency_key: str | None
    correlation_id: str | None
    key: str | None
    batch_id: str | None
    schedule: str | None
    service: str | None
    tenant: str | None
    worker: str | None
    lease_expires_at: str | None
    progress: WireProgress | None
    result: Raw | None
    last_error: str | None


class WireJobPage(msgspec.Struct):
    """Jobs, newest first, and where the next page begins."""

    jobs: list[WireJob]
    next_cursor: str | None


class WireNewBatch(msgspec.Struct):
    """Jobs in the order they were sent; `replayed` are the places of those that existed."""

    batch_id: str
    jobs: list[WireJob]
    replayed: list[int]


class WireCheckedBatch(msgspec.Struct):
    """How many jobs were found to be without fault."""

    checked: int


class WireCancelled(msgspec.Struct):
    """How many jobs were cancelled, and which; `stopping` of them were running.

    `more` when there may be others: call again with `cursor`. Of a dry run, how many fit, counted
    up to a bound (`more` when past it), and some of their ids.
    """

    count: int
    ids: list[str]
    stopping: int
    more: bool
    cursor: str | None


class WireBatch(msgspec.Struct):
    """How far the jobs of one batch are; `done` when all of them are terminal."""

    batch_id: str
    total: int
    counts: dict[str, int]
    done: bool
    created_at: str
    finished_at: str | None


class WireAttempt(msgspec.Struct):
    """One execution of a job; outcome and finish are null while it runs."""

    number: int
    worker: str | None
    started_at: str
    finished_at: str | None
    duration_ms: int | None
    outcome: str | None
    error: str | None
    exit_code: int | None
    http_status: int | None
    max_rss_bytes: int | None
    cpu_ms: int | None


class WireChange(msgspec.Struct):
    """What somebody did to a job; `attempt` is how many attempts there were by then.

    `payload_before` is the payload as it was, where `edited` says that it was changed.
    """

    number: int
    at: str
    attempt: int
    action: str
    actor: str
    note: str | None
    edited: bool
    payload_before: Raw | None


class WireAttempts(msgspec.Struct):
    """Attempts and what people did to the job, first to last."""

    attempts: list[WireAttempt]
    changes: list[WireChange]


class WireDeadJob(WireJob):
    """A dead job with all its attempts, and what people did to it."""

    attempts: list[WireAttempt]
    changes: list[WireChange]


class WireReplayed(msgspec.Struct):
    """Which dead jobs run again, oldest first, or would.

    `skipped` are those whose idempotency key a newer job has; `dead` is how many there were of the
    type; where there are `more`, the next call begins at `next_cursor`.
    """

    count: int
    ids: list[str]
    skipped: int
    dead: int
    dry_run: bool
    confirm_needed: bool
    more: bool
    next_cursor: str | None


class WireHealth(msgspec.Struct):
    """The daemon is alive."""

    status: str


class WireReadiness(msgspec.Struct):
    """Whether jobs are accepted, and if not, why."""

    ready: bool
    reasons: list[str]


def job_json(job: Job) -> bytes:
    """One job."""
    return encode(wire_job(job))


def page_json(page: JobPage) -> bytes:
    """One page of a list."""
    return encode(WireJobPage([wire_job(job) for job in page.jobs], page.next_cursor))


def new_batch_json(batch_id: str, submitted: list[Submitted]) -> bytes:
    """A batch that is on disk."""
    jobs = [wire_job(one.job) for one in submitted]
    replayed = [index for index, one in enumerate(submitted) if one.replayed]
    return encode(WireNewBatch(batch_id, jobs, replayed))


def checked_batch_json(checked: int) -> bytes:
    """A batch that was only checked."""
    return encode(WireCheckedBatch(checked))


def cancelled_json(cancelled: Cancelled) -> bytes:
    """What cancelling by filter came to."""
    return encode(WireCancelled(*msgspec.structs.astuple(cancelled)))


def batch_json(batch: Batch) -> bytes:
    """How far a batch is."""
    return encode(
        WireBatch(
            batch.batch_id,
            batch.total,
            batch.counts,
            batch.finished_at is not None,
            _time(batch.created_at),
            time_or_none(batch.finished_at),
        )
    )


def attempts_json(attempts: Iterable[Attempt], changes: Iterable[Change]) -> bytes:
    """All attempts of a job, and what people did to it."""
    return encode(WireAttempts(*_history(attempts, changes)))


def dead_json(job: Job, attempts: Iterable[Attempt], changes: Iterable[Change]) -> bytes:
    """A dead job with its history."""
    return encode(WireDeadJob(*(*job_fields(job), *_history(attempts, changes))))


def replayed_json(done: BulkReplayed, dry_run: bool) -> bytes:
    """What became of a replay of many."""
    return encode(
        WireReplayed(
            len(done.ids),
            done.ids,
            done.skipped,
            done.dead,
            dry_run,
            done.confirm_needed,
            done.next_cursor is not None,
            done.next_cursor,
        )
    )


def _history(
    attempts: Iterable[Attempt], changes: Iterable[Change]
) -> tuple[list[WireAttempt], list[WireChange]]:
    return [_attempt(attempt) for attempt in attempts], [_change(change) for change in changes]


def _change(change: Change) -> WireChange:
    before = change.payload_before
    return WireChange(
        change.number,
        _time(change.at),
        change.attempt,
        change.action,
        change.actor,
        change.note,
        before is not None,
        None if before is None else Raw(before),
    )


def wire_job(job: Job) -> WireJob:
    """A job as it is sent."""
    return WireJob(*job_fields(job))


def job_fields(job: Job) -> tuple[Any, ...]:
    """What is said of a job, in order."""
    progress = job.progress
    return (
        job.id,
        job.type,
        job.status,
        Raw(job.payload),
        job.priority,
        job.max_retries,
        job.attempt,
        job.failures,
        _time(job.created_at),
        _time(job.run_at),
        time_or_none(job.started_at),
        time_or_none(job.finished_at),
        time_or_none(job.expires_at),
        job.idempotency_key,
        job.correlation_id,
        job.key,
        job.batch_id,
        job.schedule,
        job.service,
        job.tenant,
        job.worker,
        time_or_none(job.lease_expires_at),
        None if progress is None else WireProgress(progress.percent, progress.message),
        None if job.result is None else Raw(job.result),
        job.last_error,
    )


def _attempt(attempt: Attempt) -> WireAttempt:
    finished = attempt.finished_at
    return WireAttempt(
        attempt.number,
        attempt.worker,
        _time(attempt.started_at),
        time_or_none(finished),
        None if finished is None else max(0, finished - attempt.started_at),
        attempt.outcome,
        attempt.error,
        attempt.exit_code,
        attempt.http_status,
        attempt.max_rss_bytes,
        attempt.cpu_ms,
    )


def time_or_none(moment: int | None) -> str | None:
    """A moment as it is sent."""
    return None if moment is None else _time(moment)
