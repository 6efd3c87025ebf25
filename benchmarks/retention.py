"""How long submissions take while a million old jobs are deleted, and how fast those go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.load import Measured, drive
from benchmarks.rows import Rows, fill
from benchmarks.submit import plan_for
from benchmarks.support import MEGABYTE, Daemon, Figure, Required, fresh_place, say, until

OLD = int(os.environ.get("BENCHMARK_OLD_JOBS", "1000000"))
"""Fewer make a quick run."""
CONNECTIONS = (1, 8, 64)
ROUNDS = 3
SECONDS = 2.0
DAY = 86_400
AGE_DAYS = 8
KEPT_BYTES = 5 * MEGABYTE
"""Unused space that stays in the file for the next jobs."""

Times = dict[bool, list[Measured]]


class Deleting(Daemon):
    """A daemon that is told how long to keep old jobs."""

    def keep(self, days: int) -> None:
        """Have it keep finished jobs for so long from now on."""
        self.configure(_keeping(days))
        self.reload()
        until(lambda: self._completed()["keep_seconds"] == days * DAY)

    def old_jobs(self) -> int:
        """How many there are."""
        return int(self._completed()["jobs"])

    def unused_bytes(self) -> int:
        """How much of its file nothing is in."""
        return int(self._store()["free_bytes"])

    def _completed(self) -> Any:
        return self._store()["retention"]["outcomes"]["completed"]

    def _store(self) -> Any:
        return self.ask("GET", "/stats")["store"]


def measure() -> list[Figure]:
    """Submissions with and without deletion in turn, then nothing but deletion."""
    with fresh_place() as place:
        say(f"  filling in {OLD:,} old jobs")
        old = Rows(count=OLD, type="hold", status="completed", age_ms=AGE_DAYS * DAY * 1000)
        fill(place / "jobs.db", [old])
        with Deleting(place, _keeping(10 * AGE_DAYS)) as daemon:
            return [*_in_use(daemon), *_at_rest(daemon)]


def _keeping(days: int) -> str:
    return f'[retention]\ncompleted = "{days}d"\n'


def _in_use(daemon: Deleting) -> list[Figure]:
    figures = []
    for connections in CONNECTIONS:
        times: Times = {False: [], True: []}
        rates = [_round(daemon, connections, times) for _ in range(ROUNDS)]
        kept, deleting = (median(one.p99_ms for one in times[is_on]) for is_on in (False, True))
        figures += [
            Figure(f"submit while old jobs go, {connections} connections, p99", deleting, "ms",
                   kept, "without", Required("under", 2, of_ratio=True)),
            Figure(f"old jobs deleted meanwhile, {connections} connections", median(rates),
                   "jobs/s"),
        ]  # fmt: skip
    return figures


def _round(daemon: Deleting, connections: int, times: Times) -> float:
    """Both in turn; how many old jobs went in a second."""
    rate = 0.0
    for is_on in (False, True):
        daemon.keep(1 if is_on else 10 * AGE_DAYS)
        before, began = daemon.old_jobs(), time.monotonic()
        measured = drive(plan_for(daemon.port, daemon.pid, connections, SECONDS))
        left = daemon.old_jobs()
        rate = (before - left) / (time.monotonic() - began)
        if is_on and not left:
            raise RuntimeError("there were too few old jobs to delete while all was measured")
        times[is_on].append(measured)
        say(f"  {connections} connections, {'deleting' if is_on else 'keeping'}: "
            f"p99 {measured.p99_ms:.2f} ms, {rate:,.0f} deleted/s")  # fmt: skip
    return rate


def _at_rest(daemon: Deleting) -> list[Figure]:
    left = daemon.old_jobs()
    seconds = _seconds(lambda: daemon.old_jobs() == 0)
    pages = daemon.unused_bytes()
    giving_back = _seconds(lambda: daemon.unused_bytes() < KEPT_BYTES)
    return [
        Figure("old jobs deleted by an idle daemon", left / seconds, "jobs/s"),
        Figure("unused space given back after them", pages / MEGABYTE / giving_back, "MB/s"),
    ]


def _seconds(happened: Callable[[], bool]) -> float:
    """How long until it has; asking seldom leaves the daemon alone."""
    began = time.monotonic()
    while not happened():
        time.sleep(0.2)
    return time.monotonic() - began
