"""From submission to the first instruction of the handler, on a queue with nothing else in it."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from benchmarks import handlers
from benchmarks.support import (
    Daemon,
    Figure,
    Required,
    fresh_daemon,
    percentile,
    say,
    submission_to_start,
)

JOBS = 500
PROGRAM = "/bin/date"
KINDS = {
    "command": "clock",
    "python": "python_clock",
    "remote": "remote_clock",
    "http": "http_clock",
}
SOON = Required("under", 2)


def measure() -> list[Figure]:
    """The handler tells the moment it runs; a bare posix_spawn of a program in turn."""
    figures = []
    with fresh_daemon() as daemon, ExitStack() as others:
        others.enter_context(handlers.running("work", daemon.url, "1"))
        others.enter_context(handlers.running("receive", str(daemon.receiver_port)))
        for kind, job_type in KINDS.items():
            say(f"  {JOBS} jobs of kind {kind} one after the other")
            figures += _kind(daemon, kind, job_type)
    return figures


def _kind(daemon: Daemon, kind: str, job_type: str) -> list[Figure]:
    starts: list[float] = []
    ends: list[float] = []
    bares: list[float] = []
    submission_to_start(daemon, job_type)
    for _ in range(JOBS):
        bares.append(_bare())
        start, end = submission_to_start(daemon, job_type)
        starts.append(start)
        ends.append(end)
    against = "bare posix_spawn"
    return [
        Figure(f"submission to start, {kind}, p50", percentile(starts, 50), "ms",
               percentile(bares, 50), against, None if kind == "command" else SOON),
        Figure(f"submission to start, {kind}, p99", percentile(starts, 99), "ms",
               percentile(bares, 99), against),
        Figure(f"submission to result, {kind}, p50", percentile(ends, 50), "ms"),
        Figure(f"submission to result, {kind}, p99", percentile(ends, 99), "ms"),
    ]  # fmt: skip


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
