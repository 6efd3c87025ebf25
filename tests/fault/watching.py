"""What a daemon uses, sampled from outside; over time it must not grow."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from jobqueued.store.sqlite.writer import LONGEST_LOG, SHORTEST_LOG
from tests.acceptance.support import resident_megabytes
from tests.fault.daemon import FaultDaemon

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Use:
    """One sample, or how far two of them may be apart."""

    memory: float
    """Megabytes that are resident."""
    descriptors: float
    threads: float
    tasks: float
    log: float
    """Megabytes of the write-ahead log."""


LOG_SWING = (LONGEST_LOG - SHORTEST_LOG) / MEGABYTE
"""Within these bounds the log grows and is cut again, as it happens."""
MOST_GROWTH = Use(memory=6, descriptors=6, threads=1, tasks=6, log=LOG_SWING)
"""Between the first and the last third of a run: noise, not a slope."""
MOST_LOG = 40.0


def task_file(daemon: FaultDaemon) -> Path:
    """Where a daemon that is watched writes the number of its tasks."""
    return daemon.place / "tasks"


def sample(daemon: FaultDaemon) -> Use:
    """What the daemon uses now; the number of tasks is the one of the sample before."""
    pid, tasks = daemon.process.pid, task_file(daemon)
    log = daemon.place / "jobs.db-wal"
    found = Use(
        memory=resident_megabytes(pid),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        tasks=float(tasks.read_text()) if tasks.exists() else 0.0,
        log=log.stat().st_size / MEGABYTE if log.exists() else 0.0,
    )
    os.kill(pid, signal.SIGUSR2)
    return found


def growth(samples: Sequence[Use]) -> tuple[Use, Use]:
    """What was used in the first and in the last third, after a time to warm up."""
    warm = samples[len(samples) // 4 :]
    third = len(warm) // 3
    return _middle(warm[:third]), _middle(warm[-third:])


def _middle(samples: Sequence[Use]) -> Use:
    return Use(*(median(values) for values in zip(*map(astuple, samples), strict=True)))


def slopes(samples: Sequence[Use]) -> Iterator[str]:
    """What grew more than it may."""
    first, last = growth(samples)
    for name in Use.__dataclass_fields__:
        before, after = getattr(first, name), getattr(last, name)
        if after - before > getattr(MOST_GROWTH, name):
            yield f"{name} grew from {before:.1f} to {after:.1f}"
    largest = max(one.log for one in samples)
    if largest > MOST_LOG:
        yield f"the log had {largest:.1f} MB"


def describe(samples: Sequence[Use]) -> str:
    """First and last third in one line."""
    first, last = growth(samples)
    figures = [
        f"{name} {getattr(first, name):.1f} -> {getattr(last, name):.1f}"
        for name in Use.__dataclass_fields__
    ]
    return ", ".join(figures)
