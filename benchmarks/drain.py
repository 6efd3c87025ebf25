"""How fast a full queue is emptied: by commands, Python functions and remote workers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from statistics import median

from benchmarks import handlers
from benchmarks.spawn import bare as bare_spawn
from benchmarks.support import Daemon, Figure, Required, fresh_daemon, fresh_place, say, until
from jobqueued import clock

ROUNDS = 3
AT_A_TIME = 100
REMOTE_WORKERS = 2
AHEAD_MS = 1500
"""All of them become due at once, when the last has long been submitted."""


def measure() -> list[Figure]:
    """Each kind in turn with what the machine does without a queue."""
    spawn, raw = "bare posix_spawn loop", "bare SQLite, claim and finish"
    commands = _rounds(2_000, _drained, "nothing", bare_spawn)
    functions = _rounds(20_000, _drained, "python_nothing", bare_sqlite)
    remote = _rounds(30_000, _drained_remotely, "remote_nothing", bare_sqlite)
    return [
        Figure("drain 2,000 commands, 10 workers", commands[0], "jobs/s", commands[1], spawn),
        Figure("drain 20,000 Python functions, 10 workers", functions[0], "jobs/s",
               functions[1], raw, Required("at least", 8_000)),
        Figure(f"drain 30,000 remotely, {AT_A_TIME} at a time", remote[0], "jobs/s",
               remote[1], raw, Required("at least", 15_000)),
    ]  # fmt: skip


def _rounds(
    jobs: int,
    drained: Callable[[Daemon, str, int], float],
    job_type: str,
    bare: Callable[[int], float],
) -> tuple[float, float]:
    """The queue and the bare loop in turn; the median of each in jobs a second."""
    rates, bares = [], []
    for number in range(1, ROUNDS + 1):
        bares.append(bare(jobs))
        with fresh_daemon() as daemon:
            rates.append(drained(daemon, job_type, jobs))
        say(
            f"  {job_type}, round {number} of {ROUNDS}: {rates[-1]:,.0f}/s, bare {bares[-1]:,.0f}/s"
        )
    return median(rates), median(bares)


def _drained(daemon: Daemon, job_type: str, jobs: int) -> float:
    ahead = AHEAD_MS + jobs // 10
    daemon.fill(jobs, type=job_type, run_at=clock.rfc3339(clock.now() + ahead))
    return _rate(daemon, jobs)


def _drained_remotely(daemon: Daemon, job_type: str, jobs: int) -> float:
    daemon.fill(jobs, type=job_type)
    with ExitStack() as workers:
        for _ in range(REMOTE_WORKERS):
            workers.enter_context(handlers.running("work", daemon.url, str(AT_A_TIME)))
        return _rate(daemon, jobs)


def _rate(daemon: Daemon, jobs: int) -> float:
    """Jobs a second from the first start to the last end, as the attempts were recorded."""
    until(lambda: _is_done(daemon, jobs))
    with closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as database:
        first, last, completed = database.execute(
            "SELECT min(started_at), max(finished_at), count(*) FROM attempts"
            " WHERE outcome = 'completed'"
        ).fetchone()
    if completed != jobs:
        raise RuntimeError(f"{completed} of {jobs} attempts completed")
    return jobs * 1000 / float(last - first)


def _is_done(daemon: Daemon, jobs: int) -> bool:
    time.sleep(0.1)
    return daemon.count("completed") == jobs


def bare_sqlite(jobs: int) -> float:
    """Jobs a second that SQLite alone claims and finishes, in two transactions for each 100."""
    with fresh_place() as place, closing(sqlite3.connect(place / "bare.db")) as database:
        database.isolation_level = None
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE jobs (seq INTEGER PRIMARY KEY, status TEXT, token TEXT)")
        database.execute("BEGIN")
        rows = ((number, "pending") for number in range(jobs))
        database.executemany("INSERT INTO jobs (seq, status) VALUES (?, ?)", rows)
        database.execute("COMMIT")
        began = time.perf_counter()
        for first in range(0, jobs, AT_A_TIME):
            for change in ("status = 'processing', token = 'x'", "status = 'completed'"):
                database.execute("BEGIN IMMEDIATE")
                for seq in range(first, first + AT_A_TIME):
                    database.execute(f"UPDATE jobs SET {change} WHERE seq = ?", (seq,))
                database.execute("COMMIT")
        return jobs / (time.perf_counter() - began)
