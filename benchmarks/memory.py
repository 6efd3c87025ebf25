"""Memory of the daemon: idle, and with many jobs waiting."""

from __future__ import annotations

from benchmarks.support import (
    Daemon,
    Figure,
    Required,
    children,
    fresh_daemon,
    own_megabytes,
    resident_megabytes,
    say,
)

WAITING = 100_000


def measure() -> list[Figure]:
    """After the first job has run, so that the launcher of commands is there too."""
    with fresh_daemon() as daemon:
        daemon.ask("POST", "/jobs?wait=10", {"type": "nothing"})
        (launcher,) = children(daemon.pid)
        idle = resident_megabytes(daemon.pid)
        beside = own_megabytes(launcher)
        say(f"  submitting {WAITING:,} jobs")
        daemon.fill(WAITING, type="hold", payload={"name": "world", "number": 42})
        return [
            Figure("memory, idle daemon", idle, "MB"),
            Figure("memory, idle launcher of commands, its own", beside, "MB"),
            Figure("memory, idle, both", idle + beside, "MB", required=Required("under", 60)),
            _with_backlog(daemon, launcher),
        ]


def _with_backlog(daemon: Daemon, launcher: int) -> Figure:
    waiting = daemon.count("pending")
    both = resident_megabytes(daemon.pid) + own_megabytes(launcher)
    return Figure(
        f"memory, {waiting + 1:,} waiting, both", both, "MB", required=Required("under", 120)
    )
