"""How soon a job starts beside many that may not: paused, at a limit, out of rate, key blocked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.rows import Rows, fill
from benchmarks.support import (
    ROOT,
    Daemon,
    Figure,
    Required,
    fresh_place,
    percentile,
    say,
    submission_to_start,
    until,
)

BLOCKED = 200_000
"""Jobs of each type that may not start."""
ROUNDS = 10
JOBS = 100
HOUR_MS = 3_600_000

TYPES = f"""
[pools.shared]
workers = 10
[types.paused]
command = ["sleep", "3600"]
pool = "shared"
[types.full]
command = ["sleep", "3600"]
pool = "shared"
timeout = "2h"
max_running = 1
[types.slow]
command = ["/bin/true"]
pool = "shared"
rate = "1/min"
[types.keyed]
command = ["sleep", "3600"]
pool = "shared"
timeout = "2h"
max_running_per_key = 1
[types.free]
python = "benchmarks.handlers:clock"
python_path = ["{ROOT}"]
pool = "shared"
"""

Starts = dict[str, list[float]]


def measure() -> list[Figure]:
    """Jobs of another type in the same pool, beside the blocked ones and alone, in turn."""
    starts: Starts = {"beside": [], "alone": []}
    with ExitStack() as opened:
        daemons = {
            "beside": opened.enter_context(_daemon(BLOCKED)),
            "alone": opened.enter_context(_daemon(0)),
        }
        for daemon in daemons.values():
            submission_to_start(daemon, "free")
        for number in range(1, ROUNDS + 1):
            for name, daemon in daemons.items():
                took = [submission_to_start(daemon, "free")[0] for _ in range(JOBS)]
                starts[name] += took
                say(f"  round {number} of {ROUNDS}, {name}: p99 {percentile(took, 99):.2f} ms")
        _check(daemons["beside"])
    return [_figure(starts, percent) for percent in (50, 99)]


@contextmanager
def _daemon(blocked: int) -> Iterator[Daemon]:
    with fresh_place() as place, Daemon(place, TYPES) as daemon:
        daemon.ask("POST", "/types/paused/pause")
        if blocked:
            say(f"  filling in 4 times {blocked:,} jobs")
            daemon.stop()
            _block(place / "jobs.db", blocked)
            daemon.start()
            until(lambda: _held(daemon) == _expected(blocked))
        yield daemon


def _block(database: Path, count: int) -> None:
    kinds = [
        Rows(count=count, type=name, age_ms=HOUR_MS + 1_000 * place)
        for place, name in enumerate(("paused", "full", "slow"))
    ]
    keyed = Rows(
        count=count, type="keyed", age_ms=2 * HOUR_MS, key="one", more={"held_back": "n > 0"}
    )
    fill(database, [*kinds, keyed])


def _held(daemon: Daemon) -> dict[str, dict[str, int]]:
    """What there is of the types that are held."""
    types = daemon.ask("GET", "/stats")["types"]
    return {name: types[name]["counts"] for name in ("paused", "full", "slow", "keyed")}


def _expected(count: int) -> dict[str, dict[str, int]]:
    """One of each has started that may, and the rest wait."""
    waiting = {"pending": count - 1}
    return {
        "paused": {"pending": count},
        "full": waiting | {"processing": 1},
        "slow": waiting | {"completed": 1},
        "keyed": waiting | {"processing": 1},
    }


def _check(daemon: Daemon) -> None:
    """All of them were still held in the end; a minute may have let another one through."""
    held = _held(daemon)
    if any(each["pending"] < BLOCKED - 5 for each in held.values()):
        raise RuntimeError(f"not everything was held: {held}")


def _figure(starts: Starts, percent: int) -> Figure:
    return Figure(
        f"submission to start beside {4 * BLOCKED:,} held jobs, p{percent}",
        percentile(starts["beside"], percent),
        "ms",
        percentile(starts["alone"], percent),
        "on an empty queue",
        Required("at most", 1.5, of_ratio=True),
    )
