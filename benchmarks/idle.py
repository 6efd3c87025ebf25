"""What a daemon costs that has nothing to do but wait for a job an hour ahead."""

from __future__ import annotations

import time

from benchmarks.support import Daemon, Figure, Required, children, cpu_seconds, fresh_daemon, say

SECONDS = 30
SETTLE_SECONDS = 2


def measure() -> list[Figure]:
    """Processor time and commits over half a minute."""
    with fresh_daemon() as daemon:
        daemon.ask("POST", "/jobs?wait=10", {"type": "nothing"})
        daemon.ask("POST", "/jobs", {"type": "hold", "delay_seconds": 3600})
        time.sleep(SETTLE_SECONDS)
        say(f"  watching an idle daemon for {SECONDS} seconds")
        commits = _commits(daemon)
        before = _used(daemon)
        time.sleep(SECONDS)
        used = _used(daemon) - before
        commits = _commits(daemon) - commits
    return [
        Figure(f"idle for {SECONDS} s, processor", used, "s", required=Required("under", 0.1)),
        Figure(f"idle for {SECONDS} s, commits", commits, "", required=Required("at most", 0)),
    ]


def _used(daemon: Daemon) -> float:
    return sum(cpu_seconds(pid) for pid in (daemon.pid, *children(daemon.pid)))


def _commits(daemon: Daemon) -> int:
    number: int = daemon.ask("GET", "/stats")["store"]["commits"]
    return number
