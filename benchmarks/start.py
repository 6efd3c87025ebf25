"""From submission to the first instruction of the handler, on a queue with nothing else in it."""

from __future__ import annotations

import os
import time

from benchmarks.support import Daemon, Figure, fresh_daemon, percentile, say

JOBS = 500
PROGRAM = "/bin/date"


def measure() -> list[Figure]:
    """The handler tells the moment it runs; a bare posix_spawn of the same program in turn."""
    starts: list[float] = []
    ends: list[float] = []
    bares: list[float] = []
    say(f"  {JOBS} jobs one after the other")
    with fresh_daemon() as daemon:
        _one(daemon)
        for _ in range(JOBS):
            bares.append(_bare())
            start, end = _one(daemon)
            starts.append(start)
            ends.append(end)
    against = "bare posix_spawn"
    return [
        Figure("submission to start, p50", percentile(starts, 50), "ms",
               percentile(bares, 50), against),
        Figure("submission to start, p99", percentile(starts, 99), "ms",
               percentile(bares, 99), against),
        Figure("submission to result, p50", percentile(ends, 50), "ms"),
        Figure("submission to result, p99", percentile(ends, 99), "ms"),
    ]  # fmt: skip


def _one(daemon: Daemon) -> tuple[float, float]:
    """Milliseconds until the handler ran, and until the caller had its result."""
    began = time.time_ns()
    job = daemon.ask("POST", "/jobs?wait=10", {"type": "clock"})
    ended = time.time_ns()
    return (int(job["result"]) - began) / 1e6, (ended - began) / 1e6


def _bare() -> float:
    """Milliseconds until the program ran, with nothing around it."""
    reader, writer = os.pipe()
    began = time.time_ns()
    pid = os.posix_spawn(
        PROGRAM, [PROGRAM, "+%s%N"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)]
    )
    os.close(writer)
    with os.fdopen(reader) as output:
        ran = int(output.read())
    os.waitpid(pid, 0)
    return (ran - began) / 1e6
