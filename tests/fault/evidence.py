"""All that a run left behind, in the form in which the rules look at it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fault.daemon import LIMITS, WORKERS
from tests.fault.executions import Execution, read_executions
from tests.fault.history import History, Injected
from tests.fault.limits import MOST, REMOTE

TOLERANCE = 0.05
"""Seconds; two processes note one event on their own clocks, one of them in milliseconds."""
ELSEWHERE = ("remote", *REMOTE)
"""Types that remote workers run."""

JOBS = """
SELECT id, type, status, priority, attempt, failures, losses, max_retries, created_at, run_at,
       started_at, finished_at, expires_at, idempotency_key AS key, batch_id, cancel_requested,
       payload, checksum, result, jobs.key AS line
FROM jobs LEFT JOIN payloads USING (seq) LEFT JOIN results USING (seq)
"""
ATTEMPTS = """
SELECT id, number, attempts.worker, attempts.started_at, attempts.finished_at, outcome, error
FROM attempts LEFT JOIN jobs USING (seq) ORDER BY seq, number
"""


REPLAYS = """
SELECT id, changes.attempt FROM changes LEFT JOIN jobs USING (seq)
WHERE action = 'replay' ORDER BY seq, number
"""


@dataclass(slots=True)
class Attempt:
    """One row; times are seconds."""

    number: int
    worker: str | None
    started_at: float
    finished_at: float
    outcome: str
    error: str | None = None
    started_date: float = 0.0
    """As the daemon's clock showed it, to be compared with other dates of its own."""

    def was_given_to(self, pid: int | None) -> bool:
        """Whether it was this process that leased it."""
        return pid is not None and (self.worker or "").endswith(f"-{pid}")


@dataclass(slots=True)
class StoredJob:
    """One row, with its payload, its result and its attempts; times are seconds."""

    id: str
    type: str
    status: str
    priority: int
    attempt: int
    failures: int
    losses: int
    max_retries: int
    created_at: float
    run_at: float
    started_at: float | None
    finished_at: float | None
    expires_at: float | None
    key: str | None
    batch_id: str | None
    cancel_requested: bool
    payload: bytes | None
    checksum: int | None
    result: bytes | None
    attempts: list[Attempt] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)
    """Of each how many attempts there were by then."""
    line: str | None = None
    """Its `key`, of which only so many may run."""

    @property
    def lives(self) -> list[list[Attempt]]:
        """The attempts from the submission or a replay to the next replay; the last is on."""
        bounds = [0, *self.replays, self.attempt]
        return [
            [one for one in self.attempts if begin < one.number <= end]
            for begin, end in pairwise(bounds)
        ]

    @property
    def number(self) -> str | None:
        """Which of the wanted jobs it is."""
        try:
            found: str | None = json.loads(self.payload or b"")["number"]
        except (ValueError, KeyError, TypeError):
            return None
        return found


@dataclass(slots=True)
class Database:
    """What is in the file."""

    jobs: dict[str, StoredJob]
    counts: dict[tuple[str, str, int], int]
    counted: dict[tuple[str, str, int], int]
    """The counts as they should be."""
    integrity: list[str]
    strays: list[str] = field(default_factory=list)
    """Rows that belong to no job."""


@dataclass
class Evidence:
    """One run."""

    history: History
    executions: list[Execution]
    database: Database
    workers: Mapping[str, int] = field(default_factory=lambda: WORKERS)
    limits: Mapping[str, int] = field(default_factory=lambda: LIMITS | MOST)
    log: str = ""
    """Of the daemon."""

    @property
    def jobs(self) -> dict[str, StoredJob]:
        return self.database.jobs

    @cached_property
    def executions_of(self) -> Mapping[str, list[Execution]]:
        """By job, in the order of their starts."""
        found: defaultdict[str, list[Execution]] = defaultdict(list)
        for execution in sorted(self.executions, key=lambda one: one.started):
            found[execution.job_id].append(execution)
        return found

    @cached_property
    def plans(self) -> dict[str, Any]:
        """Payloads by number."""
        return {wanted.number: wanted.payload for _, wanted, _ in self.history.wanted()}

    def fault_in(self, attempt: Attempt) -> Injected | None:
        """A fault that was there during an attempt, or earlier to the worker it was given to."""
        for fault in self.history.faults:
            hit = not fault.is_pause and attempt.was_given_to(fault.pid)
            is_late = fault.ended.wall >= attempt.started_at - fault.aftermath - TOLERANCE
            if fault.began.wall <= attempt.finished_at + TOLERANCE and (hit or is_late):
                return fault
        return None


def collect(place: Path, history: History) -> Evidence:
    """What the run in this directory left; the daemon has stopped."""
    database = read_database(place / "jobs.db")
    _to_real_time(database, history)
    log = (place / "serve.log").read_text(errors="replace")
    return Evidence(history, read_executions(place), database, log=log)


def _to_real_time(database: Database, history: History) -> None:
    """Dates of what happened are those of the daemon's clock, which a fault may have set."""
    for job in database.jobs.values():
        job.created_at = history.real_time(job.created_at)
        for attempt in job.attempts:
            attempt.started_at = history.real_time(attempt.started_at)
            attempt.finished_at = history.real_time(attempt.finished_at)


def read_database(path: Path) -> Database:
    """All of a file, read only."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        integrity = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        jobs = {row["id"]: _job(row) for row in connection.execute(JOBS)}
        strays = _add_attempts(connection, jobs) + _add_replays(connection, jobs)
        counts = _counts(connection, "SELECT type, status, priority, n FROM counts WHERE n <> 0")
        counted = _counts(
            connection, "SELECT type, status, priority, count(*) FROM jobs GROUP BY 1, 2, 3"
        )
    return Database(jobs, counts, counted, integrity, strays)


def _job(row: sqlite3.Row) -> StoredJob:
    fields = dict(row)
    for name in ("created_at", "run_at", "started_at", "finished_at", "expires_at"):
        fields[name] = None if fields[name] is None else fields[name] / 1000
    fields["cancel_requested"] = bool(fields["cancel_requested"])
    return StoredJob(**fields)


def _add_attempts(connection: sqlite3.Connection, jobs: dict[str, StoredJob]) -> list[str]:
    """Give every job its attempts; those that belong to none."""
    strays = []
    for job_id, number, worker, started_at, finished_at, outcome, error in connection.execute(
        ATTEMPTS
    ):
        if job_id is None:
            strays.append(f"attempt {number} of no job")
            continue
        jobs[job_id].attempts.append(
            Attempt(
                number,
                worker,
                started_at / 1000,
                finished_at / 1000,
                outcome,
                error,
                started_at / 1000,
            )
        )
    return strays


def _add_replays(connection: sqlite3.Connection, jobs: dict[str, StoredJob]) -> list[str]:
    strays = []
    for job_id, attempt in connection.execute(REPLAYS):
        if job_id is None:
            strays.append("a change of no job")
        else:
            jobs[job_id].replays.append(attempt)
    return strays


def _counts(connection: sqlite3.Connection, statement: str) -> dict[tuple[str, str, int], int]:
    return {(kind, status, p): n for kind, status, p, n in connection.execute(statement)}
