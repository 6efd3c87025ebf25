"""Submitting, reading, cancelling and hurrying jobs."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from jobqueued.model.errors import DamagedDatabase, KeyReused
from jobqueued.model.ids import first_place, place_of
from jobqueued.model.job import TERMINAL, WAITING, Attempt, Batch, Job, Progress, Status
from jobqueued.model.same_json import same_json
from jobqueued.model.submission import JobPage, JobQuery, Submitted
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

log = logging.getLogger("jobqueued.store")

_SELECT = SQL["select_jobs"]
MOST_PAGE_BYTES = 1024 * 1024
"""Of payloads and results; a page ends early rather than take all memory."""
_PAGE = 50
DAMAGED = b"null"
"""Shown for a payload that did not last: half a JSON value would spoil the whole answer."""
_TEXT = {status: status.value for status in Status}
"""Plain text: binding anything else to a statement takes SQLite's module much longer."""
_STATUSES = frozenset(_TEXT.values())
_LABELS = ("batch_id", "correlation_id", "idempotency_key", "key")
Indexes = tuple[tuple[str, str], ...]

_DUE: Indexes = (("jobs_due", "status IN ('scheduled', 'retrying')"),)
_ENDED_BADLY = "status IN ('dead', 'discarded', 'cancelled', 'expired')"
_UNSUCCESSFUL: Indexes = (("jobs_unsuccessful", _ENDED_BADLY),)
_HELD_BACK = "key IS NOT NULL AND held_back = 1"
_UNSUCCESSFUL_TYPE = (("jobs_unsuccessful_type", _ENDED_BADLY),)
_INDEXES: dict[Status, Indexes] = {
    Status.SCHEDULED: _DUE,
    Status.RETRYING: _DUE,
    Status.PENDING: (("jobs_pending", "held_back = 0"), ("jobs_keyed", _HELD_BACK)),
    Status.PROCESSING: (("jobs_processing", "true"),),
    Status.COMPLETED: (("jobs_finished", "finished_at IS NOT NULL"),),
    Status.DEAD: _UNSUCCESSFUL,
    Status.DISCARDED: _UNSUCCESSFUL,
    Status.CANCELLED: _UNSUCCESSFUL,
    Status.EXPIRED: _UNSUCCESSFUL,
}
"""The indexes that have the jobs of a status, and the conditions that let SQLite use them."""


def submit(
    tx: Transaction, jobs: Sequence[Job], batch_id: str | None, window: int
) -> list[Submitted] | KeyReused:
    """Insert all jobs or none; keys are looked up before anything is written."""
    placed: list[Submitted] = []
    fresh: dict[tuple[str, str | None], Job] = {}
    for number, job in enumerate(jobs):
        known = None if job.idempotency_key is None else _known(tx, job, fresh, window)
        if known is None:
            placed.append(Submitted(job, False))
        elif _same_work(tx, known, job):
            placed.append(Submitted(known, True))
        else:
            return _key_reused(job, number if batch_id else None)
    new = [submitted.job for submitted in placed if not submitted.replayed]
    if batch_id is not None:
        tx.execute(SQL["insert_batch"], (batch_id, len(new), jobs[0].created_at))
    insert(tx, new)
    return placed


def _known(
    tx: Transaction, job: Job, fresh: dict[tuple[str, str | None], Job], window: int
) -> Job | None:
    """The job that has the key already, in this batch or on disk; else this one has it now."""
    owner = (job.idempotency_key or "", job.tenant)
    if owner in fresh:
        return fresh[owner]
    row = tx.execute(SQL["find_idempotency_key"], owner).fetchone()
    known = read_job_at(tx, row[0])
    if known is not None and not (
        known.is_terminal and known.created_at + window <= job.created_at
    ):
        return known
    fresh[owner] = job
    return None


def _same_work(tx: Transaction, known: Job, job: Job) -> bool:
    """Whether the caller asks for what it asked for then; a replay may have changed it since."""
    if known.type != job.type:
        return False
    if same_json(known.payload, job.payload):
        return True
    rows = tx.execute(SQL["payloads_before"], (place_of(known.id),)).fetchall()
    return any(same_json(row[0], job.payload) for row in rows)


def _key_reused(job: Job, number: int | None) -> KeyReused:
    where = "" if number is None else f"jobs[{number}]: "
    return KeyReused(
        f"{where}idempotency key {job.idempotency_key!r} belongs to a job of another type or "
        "payload; use a new key for new work"
    )


def insert(tx: Transaction, jobs: Sequence[Job]) -> None:
    """Put jobs that are not there yet on disk."""
    places = [place_of(job.id) for job in jobs]
    tx.many(
        "insert_job",
        [
            (
                seq, job.id, job.type, _TEXT[job.status], job.priority, job.max_retries,
                job.created_at, job.run_at, job.expires_at, job.idempotency_key,
                job.correlation_id, job.key, job.batch_id, job.schedule, job.service, job.tenant,
            )
            for seq, job in zip(places, jobs, strict=True)
        ],
    )  # fmt: skip
    tx.many(
        "insert_payload",
        [
            (seq, job.payload, crc32(job.payload))
            for seq, job in zip(places, jobs, strict=True)
        ],
    )  # fmt: skip
    for lane, number in Counter((job.type, job.status, job.priority) for job in jobs).items():
        tx.added(lane, number)
    if tx.key_limits:
        for job in jobs:
            tx.touched(job.type, job.tenant, job.key)


def is_intact(payload: object, checksum: object) -> bool:
    """Whether a payload on disk is what was written there."""
    return isinstance(payload, bytes) and crc32(payload) == checksum


def job_from(row: tuple[Any, ...]) -> Job:
    """A row of select_jobs as a Job."""
    (
        job_id, job_type, status, payload, checksum, priority, max_retries, attempt, failures,
        created_at, run_at, started_at, finished_at, expires_at, idempotency_key, correlation_id,
        key, batch_id, schedule, service, tenant, worker, lease_expires_at, percent, message,
        result, last_error,
    ) = row  # fmt: skip
    if status not in _STATUSES:
        raise DamagedDatabase(f"job {job_id} is damaged on disk; run `jobqueued doctor`")
    return Job(
        id=job_id, type=job_type, status=Status(status),
        payload=payload if is_intact(payload, checksum) else DAMAGED, priority=priority,
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


def read_job_at(tx: Transaction, seq: int | None) -> Job | None:
    """The job of one row, as it is within a transaction."""
    row = tx.execute(f"{_SELECT} WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else job_from(row)


def read_jobs_at(tx: Transaction, places: Sequence[tuple[int]]) -> dict[str, Job]:
    """The jobs of some rows by id, as they are within a transaction."""
    return {row[0]: job_from(row) for row in tx.many("select_jobs_at", places)}


def list_jobs(
    connection: sqlite3.Connection, query: JobQuery, counts: Mapping[str, int]
) -> JobPage:
    """One page; `counts` says how many jobs each status has."""
    places: list[int] = []
    for source, condition in _sources(query, counts):
        places += _newest(connection, query, source, condition)
    # Each source gave its newest, so the newest of all are among them.
    places.sort(reverse=True)
    jobs, size = [], 0
    for seq in places[: query.limit]:
        row = connection.execute(f"{_SELECT} WHERE seq = ?", (seq,)).fetchone()
        if row is None:
            continue
        try:
            jobs.append(job_from(row))
        except DamagedDatabase as error:
            log.error("left out of a list: %s", error)
        else:
            size += len(jobs[-1].payload) + len(jobs[-1].result or b"")
        if size > MOST_PAGE_BYTES:
            break
    more = len(places) > len(jobs) > 0
    return JobPage(jobs, jobs[-1].id if more else None)


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
            for index, condition in _indexes_of(status, query):
                yield f"jobs INDEXED BY {index}", f"{condition} AND status = '{Status(status)}'"


def _indexes_of(status: str, query: JobQuery) -> Indexes:
    found = _INDEXES[Status(status)]
    return _UNSUCCESSFUL_TYPE if found is _UNSUCCESSFUL and query.type is not None else found


def _is_walked(status: str, counts: Mapping[str, int]) -> bool:
    """Whether walking back from the newest job meets enough of them soon."""
    if _INDEXES[Status(status)] is _UNSUCCESSFUL:
        return False
    having = counts.get(status, 0)
    # To sort them costs as many rows as there are; to walk costs a page of them and all between.
    return having * having >= _PAGE * sum(counts.values())


def _newest(
    connection: sqlite3.Connection, query: JobQuery, source: str, condition: str
) -> list[int]:
    conditions, values = _conditions(query)
    where = " AND ".join([condition, *conditions])
    rows = connection.execute(
        f"SELECT seq FROM {source} WHERE {where} ORDER BY seq DESC LIMIT ?",
        (*values, query.limit + 1),
    ).fetchall()
    return [row[0] for row in rows]


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


def _state(tx: Transaction, job_id: str) -> tuple[str, int, str, str | None, str | None] | None:
    row: tuple[str, int, str, str | None, str | None] | None = tx.execute(
        "SELECT type, priority, status, tenant, key FROM jobs WHERE seq = ? AND id = ?",
        (place_of(job_id), job_id),
    ).fetchone()
    return row


def cancel(tx: Transaction, job_id: str, now: int) -> str | None:
    """Cancel a waiting job, mark a processing one; the status it had before."""
    state = _state(tx, job_id)
    if state is None:
        return None
    job_type, priority, status, tenant, key = state
    if status in WAITING:
        tx.execute(SQL["cancel_waiting"], (now, place_of(job_id)))
        tx.moved(job_type, priority, status, Status.CANCELLED)
        tx.touched(job_type, tenant, key)
    elif status == Status.PROCESSING:
        tx.execute(SQL["request_cancel"], (place_of(job_id),))
    return status


def run_now(tx: Transaction, job_id: str, now: int) -> str | None:
    """Make a scheduled or retrying job pending; the status it had before."""
    state = _state(tx, job_id)
    if state is None:
        return None
    job_type, priority, status, tenant, key = state
    if status in (Status.SCHEDULED, Status.RETRYING):
        tx.execute(SQL["run_now"], (now, place_of(job_id)))
        tx.moved(job_type, priority, status, Status.PENDING)
        tx.touched(job_type, tenant, key)
    return status


def oldest_pending(connection: sqlite3.Connection, lanes: Sequence[tuple[str, int]]) -> int | None:
    """Since when the longest waiting runnable job waits: one seek a lane."""
    found = [connection.execute(SQL["oldest_pending"], lane).fetchone()[0] for lane in lanes]
    return min((run_at for run_at in found if run_at is not None), default=None)
