"""Where a job stands in line, read without walking the line: every count has a bound."""

from __future__ import annotations

import sqlite3

from jobqueued.model.ids import place_of
from jobqueued.model.job import Job, Status
from jobqueued.store.interface import Counted, Standing
from jobqueued.store.sqlite.claims import Wish, choose
from jobqueued.store.sqlite.counts import JobCounts, Transaction
from jobqueued.store.sqlite.jobs import read_job
from jobqueued.store.sqlite.keys import read_key_queue
from jobqueued.store.sqlite.queries import SQL

MOST_COUNTED = 10_000
MOST_NAMED = 20
_MOST_LOOKED_AT = 1_000
"""Running jobs among which those of one type are looked for."""


def read_standing(
    connection: sqlite3.Connection, job_id: str, wish: Wish, counts: JobCounts
) -> Standing | None:
    """What is known of a job, and whether the claim would choose it for this wish."""
    job = read_job(connection, job_id)
    if job is None:
        return None
    seq = place_of(job_id)
    is_pending = job.status is Status.PENDING
    # Choosing only reads; what it notes in a transaction is for those who go on to write.
    chosen = choose(Transaction(connection, counts), wish) if is_pending else []
    return Standing(
        job=job,
        is_next=seq in {one.seq for one in chosen},
        ahead=_ahead(connection, job) if is_pending else Counted(0),
        running_ids=_running(connection, job.type),
        key_queue=read_key_queue(connection, job_id),
    )


def read_in_front(connection: sqlite3.Connection, job_type: str) -> Counted:
    """How many pending jobs of a type wait for nobody of their key."""
    values = (job_type, MOST_COUNTED + 1)
    return _counted(connection.execute(SQL["in_front"], values).fetchone()[0])


def _ahead(connection: sqlite3.Connection, job: Job) -> Counted:
    values = (job.type, job.priority, job.run_at, place_of(job.id), MOST_COUNTED + 1)
    return _counted(connection.execute(SQL["ahead_in_lane"], values).fetchone()[0])


def _running(connection: sqlite3.Connection, job_type: str) -> tuple[str, ...]:
    values = (_MOST_LOOKED_AT, job_type, MOST_NAMED)
    return tuple(row[0] for row in connection.execute(SQL["running_of_type"], values).fetchall())


def _counted(number: int) -> Counted:
    return Counted(min(number, MOST_COUNTED), number > MOST_COUNTED)
