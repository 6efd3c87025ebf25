"""How long after kill -9 a daemon with a long queue takes jobs again and runs what it ran."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.support import Daemon, Figure, Required, fresh_daemon, say, until

WAITING = 100_000
ROUNDS = 3
LONGEST_SECONDS = 10.0
"""When the lost job does not run again by then, that is the figure."""


def measure() -> list[Figure]:
    """Kill it, start it, look at the clock."""
    ready: list[float] = []
    running: list[float] = []
    for number in range(1, ROUNDS + 1):
        say(f"  round {number} of {ROUNDS}: submitting {WAITING:,} jobs")
        with fresh_daemon() as daemon:
            after, again = _recovered(daemon)
            ready.append(after)
            running.append(again)
    name = f"kill -9 with {WAITING:,} waiting"
    return [
        Figure(f"{name}, ready again", median(ready), "s"),
        Figure(f"{name}, the lost job runs", median(running), "s", required=Required("under", 2)),
    ]


def _recovered(daemon: Daemon) -> tuple[float, float]:
    """Seconds from the start until jobs are taken, and until the job that ran runs again."""
    job_id: str = daemon.ask("POST", "/jobs", {"type": "hold"})["id"]
    until(lambda: _attempt(daemon, job_id) == 1)
    daemon.fill(WAITING, type="hold")
    daemon.kill()
    began = time.monotonic()
    daemon.start()
    ready = time.monotonic() - began
    while _attempt(daemon, job_id) < 2 and time.monotonic() - began < LONGEST_SECONDS:
        time.sleep(0.005)
    return ready, time.monotonic() - began


def _attempt(daemon: Daemon, job_id: str) -> int:
    """The attempt that runs, 0 while none does."""
    job = daemon.ask("GET", f"/jobs/{job_id}")
    return int(job["attempt"]) if job["status"] == "processing" else 0
