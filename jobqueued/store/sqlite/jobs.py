"""Submitting, reading, cancelling and hurrying jobs."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobqueued.model.errors import KeyReused
from jobqueued.model.ids import first_place, place_of
from jobqueued.model.job import TERMINAL, WAITING, Attempt, Batch, Job, NewJob, Progress, Status
from jobqueued.model.same_json import same_json
from jobqueued.model.submission import JobPage, JobQuery, Submitted
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

_SELECT = SQL["select_jobs"]
_PAGE = 50
_LABELS = ("batch_id", "correlation_id", "idempotency_key", "key")
_DUE = ("jobs_due", "status IN ('scheduled', 'retrying')")
_UNSUCCESSFUL = (
    "jobs_unsuccessful",
    "status IN ('dead', 'discarded', 'cancelled', 'expired')",
)
_INDEXES = {
    Status.SCHEDULED: _DUE,
    Status.RETRYING: _DUE,
    Status.PENDING: ("jobs_pending", "true"),
    Status.PROCESSING: ("jobs_processing", "true"),
    Status.COMPLETED: ("jobs_finished", "finished_at IS NOT NULL"),
    Status.DEAD: _UNSUCCESSFUL,
    Status.DISCARDED: _UNSUCCESSFUL,
    Status.CANCELLED: _UNSUCCESSFUL,
    Status.EXPIRED: _UNSUCCESSFUL,
}
"""The index that has the jobs of a status, and the condition that lets SQLite use it."""


def submit(
    tx: Transaction, jobs: Sequence[NewJob], batch_id: str | None, window: int
) -> list[Submitted] | KeyReused:
    """Insert all jobs or none; keys are looked up before anything is written."""
    placed: list[Submitted | NewJob] = []
    fresh: dict[tuple[str, str | None], NewJob] = {}
    for number, job in enumerate(jobs):
        known = _known(tx, job, fresh, window)
        if known is not None and not _same_work(known, job):
            return _key_reused(job, number if batch_id else None)
        placed.append(
            known if isinstance(known, NewJob) else Submitted(known, True) if known else job
        )
        if known is None and job.idempotency_key is not None:
            fresh[job.idempotency_key, job.tenant] = job
    new = [job for job, place in zip(jobs, placed, strict=True) if place is job]
    if batch_id is not None:
        tx.execute(SQL["insert_batch"], (batch_id, len(new), jobs[0].created_at))
    for job in new:
        _insert(tx, job)
    return [
        place if isinstance(place, Submitted) else Submitted(as_stored(place), place is not job)
        for job, place in zip(jobs, placed, strict=True)
    ]


def _known(
    tx: Transaction, job: NewJob, fresh: dict[tuple[str, str | None], NewJob], window: int
) -> Job | NewJob | None:
    if job.idempotency_key is None:
        return None
    owner = (job.idempotency_key, job.tenant)
    if owner in fresh:
        return fresh[owner]
    row = tx.execute(SQL["find_idempotency_key"], owner).fetchone()
    found = tx.execute(f"{_SELECT} WHERE seq = ?", row).fetchone()
    if found is None:
        return None
    known = job_from(found)
    over = known.is_terminal and known.created_at + window <= job.created_at
    return None if over else known


def _same_work(known: Job | NewJob, job: NewJob) -> bool:
    return known.type == job.type and same_json(known.payload, job.payload)


def _key_reused(job: NewJob, number: int | None) -> KeyReused:
    where = "" if number is None else f"jobs[{number}]: "
    return KeyReused(
        f"{where}idempotency key {job.idempotency_key!r} belongs to a job of another type or "
        "payload; use a new key for new work"
    )


def _insert(tx: Transaction, job: NewJob) -> None:
    seq = place_of(job.id)
    tx.execute(
        SQL["insert_job"],
        (
            seq, job.id, job.type, job.status, job.priority, job.max_retries, job.created_at,
            job.run_at, job.expires_at, job.idempotency_key, job.correlation_id, job.key,
            job.batch_id, job.schedule, job.service, job.tenant,
        ),
    )  # fmt: skip
    tx.execute(SQL["insert_payload"], (seq, job.payload, zlib.crc32(job.payload)))
    tx.moved(job.type, job.priority, None, job.status)


def as_stored(new: NewJob) -> Job:
    """What a read would give right after the insert."""
    return Job(
        id=new.id, type=new.type, status=new.status, payload=new.payload, priority=new.priority,
        max_retries=new.max_retries, attempt=0, failures=0, created_at=new.created_at,
        run_at=new.run_at, started_at=None, finished_at=None, expires_at=new.expires_at,
        idempotency_key=new.idempotency_key, correlation_id=new.correlation_id, key=new.key,
        batch_id=new.batch_id, schedule=new.schedule, service=new.service, tenant=new.tenant,
        worker=None, lease_expires_at=None, progress=None, result=None, last_error=None,
    )  # fmt: skip


def job_from(row: tuple[Any, ...]) -> Job:
    """A row of select_jobs as a Job."""
    (
        job_id, job_type, status, payload, priority, max_retries, attempt, failures, created_at,
        run_at, started_at, finished_at, expires_at, idempotency_key, correlation_id, key,
        batch_id, schedule, service, tenant, worker, lease_expires_at, percent, message, result,
        last_error,
    ) = row  # fmt: skip
    return Job(
        id=job_id, type=job_type, status=Status(status), payload=payload, priority=priority,
        max_retries=max_retries, attempt=attempt, failures=failures, created_at=created_at,
        run_at=run_at, started_at=started_at, finished_at=finished_at, expires_at=expires_at,
        idempotency_key=idempotency_key, correlation_id=correlation_id, key=key,
        batch_id=batch_id, schedule=schedule, service=service, tenant=tenant, worker=worker,
        lease_expires_at=lease_expires_at,
        progress=None if percent is None else Progress(percent, message),
        result=result, last_error=last_error,
    )  # fmt: skip


def read_job(connection: sqlite3.Connection, job_id: str) -> Job | None:
    rows = connection.execute(f"{_SELECT} WHERE seq = ? AND id = ?", (place_of(job_id), job_id))
    row = rows.fetchone()
    return None if row is None else job_from(row)


def list_jobs(
    connection: sqlite3.Connection, query: JobQuery, counts: Mapping[str, int]
) -> JobPage:
    """One page; `counts` says how many jobs each status has."""
    rows: list[tuple[Any, ...]] = []
    for source, condition in _sources(query, counts):
        rows += _newest(connection, query, source, condition)
    # Ids sort by time. Each source gave its newest, so the newest of all are among them.
    rows.sort(key=lambda row: str(row[0]), reverse=True)
    jobs = [job_from(row) for row in rows[: query.limit]]
    return JobPage(jobs, jobs[-1].id if len(rows) > query.limit else None)


def _sources(query: JobQuery, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Where to look, and for what there: a status that few jobs have through its own index."""
    labelled = any(getattr(query, column) is not None for column in _LABELS)
    walked = [status for status in query.statuses if labelled or _is_walked(status, counts)]
    if walked or not query.statuses:
        # The unary plus keeps SQLite from sorting a large index instead of walking back.
        names = ", ".join(f"'{Status(status)}'" for status in walked)
        yield "jobs", f"+status IN ({names})" if walked else "true"
    for status in query.statuses:
        if status not in walked:
            index, condition = _INDEXES[Status(status)]
            yield f"jobs INDEXED BY {index}", f"{condition} AND status = '{Status(status)}'"


def _is_walked(status: str, counts: Mapping[str, int]) -> bool:
    """Whether walking back from the newest job meets enough of them soon."""
    if _INDEXES[Status(status)] is _UNSUCCESSFUL:
        return False
    having = counts.get(status, 0)
    # To sort them costs as many rows as there are; to walk costs a page of them and all between.
    return having * having >= _PAGE * sum(counts.values())


def _newest(
    connection: sqlite3.Connection, query: JobQuery, source: str, condition: str
) -> list[tuple[Any, ...]]:
    conditions, values = _conditions(query)
    where = " AND ".join([condition, *conditions])
    # Found before they are joined: where there is something to sort, it is not the payloads.
    found = f"SELECT seq FROM {source} WHERE {where} ORDER BY seq DESC LIMIT ?"
    return connection.execute(
        f"{_SELECT} WHERE seq IN ({found})", (*values, query.limit + 1)
    ).fetchall()


def _conditions(query: JobQuery) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    values: list[object] = []
    for column in ("type", *_LABELS):
        value = getattr(query, column)
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    bounds = (
        (">=", None if query.created_after is None else first_place(query.created_after + 1)),
        ("<", None if query.created_before is None else first_place(query.created_before)),
        ("<", place_of(query.before_id) if query.before_id else None),
    )
    for sign, bound in bounds:
        if bound is not None:
            conditions.append(f"seq {sign} ?")
            values.append(bound)
    return conditions, values


def read_batch(connection: sqlite3.Connection, batch_id: str) -> Batch | None:
    row = connection.execute(SQL["batch"], (batch_id,)).fetchone()
    if row is None:
        return None
    rows = connection.execute(SQL["batch_counts"], (batch_id,)).fetchall()
    counts = {status: n for status, n, _ in rows}
    done = all(Status(status) in TERMINAL for status in counts)
    last = max((finished for _, _, finished in rows if finished is not None), default=row[2])
    return Batch(
        batch_id=row[0], total=row[1], counts=counts, created_at=row[2],
        finished_at=last if done else None,
    )  # fmt: skip


def read_attempts(connection: sqlite3.Connection, job_id: str) -> list[Attempt]:
    names = Attempt.__struct_fields__
    rows = connection.execute(SQL["attempts"], (place_of(job_id),)).fetchall()
    return [Attempt(**dict(zip(names, row, strict=True))) for row in rows]


def read_log(connection: sqlite3.Connection, job_id: str, attempt: int) -> bytes | None:
    row = connection.execute(SQL["log"], (place_of(job_id), attempt)).fetchone()
    return None if row is None else bytes(row[0])


def _state(tx: Transaction, job_id: str) -> tuple[str, int, str] | None:
    row: tuple[str, int, str] | None = tx.execute(
        "SELECT type, priority, status FROM jobs WHERE seq = ? AND id = ?",
        (place_of(job_id), job_id),
    ).fetchone()
    return row


def cancel(tx: Transaction, job_id: str, now: int) -> str | None:
    """Cancel a waiting job, mark a processing one; the status it had before."""
    state = _state(tx, job_id)
    if state is None:
        return None
    job_type, priority, status = state
    if status in WAITING:
        tx.execute(SQL["cancel_waiting"], (now, place_of(job_id)))
        tx.moved(job_type, priority, status, Status.CANCELLED)
    elif status == Status.PROCESSING:
        tx.execute(SQL["request_cancel"], (place_of(job_id),))
    return status


def run_now(tx: Transaction, job_id: str, now: int) -> str | None:
    """Make a scheduled or retrying job pending; the status it had before."""
    state = _state(tx, job_id)
    if state is None:
        return None
    job_type, priority, status = state
    if status in (Status.SCHEDULED, Status.RETRYING):
        tx.execute(SQL["run_now"], (now, place_of(job_id)))
        tx.moved(job_type, priority, status, Status.PENDING)
    return status


def oldest_pending(connection: sqlite3.Connection, lanes: Sequence[tuple[str, int]]) -> int | None:
    """Since when the longest waiting runnable job waits: one seek a lane."""
    found = [connection.execute(SQL["oldest_pending"], lane).fetchone()[0] for lane in lanes]
    return min((run_at for run_at in found if run_at is not None), default=None)
