"""How long one caller waits for one durable submission, and what batches bring."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median

from benchmarks.bare import bare_server
from benchmarks.load import Measured, Plan, drive
from benchmarks.submit import BODY, plan_for
from benchmarks.support import FULL_BATCH, Daemon, Figure, Required, fresh_daemon, percentile, say

ROUNDS = 5
SECONDS = 2.0
SYNCS = 500


def measure() -> list[Figure]:
    """One connection in turn to the daemon, to a bare handler, and with batches."""
    singles: list[Measured] = []
    bares: list[Measured] = []
    batches: list[Measured] = []
    with fresh_daemon() as daemon, bare_server("application") as bare:
        for number in range(1, ROUNDS + 1):
            say(f"  round {number} of {ROUNDS}")
            bares.append(drive(plan_for(bare.port, bare.pid, 1, SECONDS)))
            singles.append(drive(plan_for(daemon.port, daemon.pid, 1, SECONDS)))
            batches.append(drive(_batches(daemon)))
        disk = _disk(daemon.place)
    return [*_figures(singles, bares, batches), disk]


def _disk(place: Path) -> Figure:
    """What a page on disk costs at the least."""
    took: list[float] = []
    with (place / "probe").open("wb", buffering=0) as probe:
        for _ in range(SYNCS):
            probe.write(bytes(4096))
            began = time.perf_counter()
            os.fdatasync(probe.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return Figure("the disk alone: fdatasync of one page more, p50", percentile(took, 50), "ms")


def _batches(daemon: Daemon) -> Plan:
    body = json.dumps({"jobs": [json.loads(BODY)] * FULL_BATCH})
    return Plan(
        port=daemon.port,
        pid=daemon.pid,
        path="/jobs/batch",
        body=body,
        connections=1,
        seconds=SECONDS,
    )


def _figures(
    singles: list[Measured], bares: list[Measured], batches: list[Measured]
) -> list[Figure]:
    p50 = median(one.p50_ms for one in singles)
    return [
        Figure(
            "submit, 1 connection, p50",
            p50,
            "ms",
            median(one.p50_ms for one in bares),
            "bare aiohttp application",
            Required("under", 0.5),
        ),
        Figure(
            "submit, 1 connection, p99",
            median(one.p99_ms for one in singles),
            "ms",
            median(one.p99_ms for one in bares),
            "bare aiohttp application",
        ),
        Figure(
            f"submit, batches of {FULL_BATCH}, 1 connection",
            FULL_BATCH * median(one.rate for one in batches),
            "jobs/s",
            median(one.rate for one in singles),
            "one at a time",
        ),
    ]
