"""How fast ten workers empty a queue of commands that do nothing."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from statistics import median

from benchmarks.spawn import bare
from benchmarks.support import Daemon, Figure, fresh_daemon, say, until
from jobqueued import clock

JOBS = 2000
ROUNDS = 3
AHEAD_MS = 1500
"""All of them become due at once, when the last has long been submitted."""


def measure() -> list[Figure]:
    """The queue and a bare loop of posix_spawn in turn."""
    rates: list[float] = []
    bares: list[float] = []
    for number in range(1, ROUNDS + 1):
        say(f"  round {number} of {ROUNDS}")
        bares.append(bare(JOBS))
        with fresh_daemon() as daemon:
            rates.append(_drained(daemon))
    name = f"drain {JOBS:,} commands, 10 workers"
    return [Figure(name, median(rates), "jobs/s", median(bares), "bare posix_spawn loop")]


def _drained(daemon: Daemon) -> float:
    """Jobs a second from the first start to the last end, as the attempts were recorded."""
    run_at = clock.rfc3339(clock.now() + AHEAD_MS)
    daemon.fill(JOBS, type="nothing", run_at=run_at)
    until(lambda: _is_done(daemon))
    with closing(sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)) as database:
        first, last, completed = database.execute(
            "SELECT min(started_at), max(finished_at), count(*) FROM attempts"
            " WHERE outcome = 'completed'"
        ).fetchone()
    if completed != JOBS:
        raise RuntimeError(f"{completed} of {JOBS} attempts completed")
    return JOBS * 1000 / float(last - first)


def _is_done(daemon: Daemon) -> bool:
    time.sleep(0.1)
    return daemon.count("completed") == JOBS
