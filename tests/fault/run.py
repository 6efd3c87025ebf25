"""The long runs: `python -m tests.fault.run fault` and `python -m tests.fault.run soak`."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.fault.campaign import Campaign
from tests.fault.faults import FAULTS, TRIALS, Fault, Trial, declare_all
from tests.fault.soak import steady, stormy
from tests.fault.table import Row, render

CHUNK = 50
"""Most times that one campaign suffers a fault; then a new one begins with a fresh file."""

SOAKS = {"steady": "soak: one daemon, watched", "stormy": "soak: all faults mixed"}
"""The halves of a soak, and the names of their rows."""

Job = tuple[str, tuple[Any, ...]]
"""The name of its row, and what `_work` gets."""


def main() -> int:
    options = _options()
    declare_all()
    began = time.monotonic()
    jobs = _soak(options) if options.command == "soak" else _faults(options)
    rows = _run_all(jobs, options.side)
    print(render(rows))
    print(f"\n{time.monotonic() - began:.0f} s")
    return int(any(row.lost or row.violations for row in rows) or not rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.fault.run", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fault = commands.add_parser("fault", help="every fault by itself")
    fault.add_argument("--only", default="", metavar="TEXT", help="those with this in their name")
    fault.add_argument("--times", type=int, help="how often each, in place of its own number")
    soak = commands.add_parser("soak", help="all faults mixed, and a daemon that is watched")
    soak.add_argument("--minutes", type=float, default=30)
    soak.add_argument("--only", choices=SOAKS, help="one of its two halves")
    soak.add_argument("--faults", default="", metavar="TEXT", help="those with this in their name")
    for command in (fault, soak):
        command.add_argument("--side", type=int, default=os.cpu_count() or 1, help="side by side")
    return parser.parse_args()


def _faults(options: argparse.Namespace) -> list[Job]:
    """What to run: names, and the arguments for `_work`."""
    jobs: list[Job] = []
    everything: Iterable[Fault | Trial] = [*TRIALS.values(), *FAULTS.values()]
    for one in everything:
        if options.only in one.name:
            left = options.times or one.times
            most = left if isinstance(one, Trial) else CHUNK
            while left > 0:
                jobs.append((one.name, ("suffer", one.name, min(left, most))))
                left -= most
    return jobs


def _soak(options: argparse.Namespace) -> list[Job]:
    wanted = [options.only] if options.only else list(SOAKS)
    return [(SOAKS[kind], (kind, options.minutes * 60, options.faults)) for kind in wanted]


def _run_all(jobs: list[Job], side: int) -> list[Row]:
    """Run everything, some side by side, each in a process of its own; rows in order."""
    rows: dict[str, Row] = {}
    with ProcessPoolExecutor(side, get_context("spawn"), max_tasks_per_child=1) as pool:
        names: dict[Future[Row], str] = {}
        for name, arguments in jobs:
            rows[name] = Row(name)
            names[pool.submit(_work, name, arguments)] = name
        for number, done in enumerate(as_completed(names), start=1):
            row = done.result()
            rows[row.name].merge(row)
            remarks = row.remarks if row.lost or row.violations else []
            print(f"[{number}/{len(names)}] {row}", *remarks, sep="\n", file=sys.stderr, flush=True)
    return list(rows.values())


def _work(name: str, arguments: tuple[Any, ...]) -> Row:
    """In a process of its own: one campaign or trial, in a directory that is kept if it fails."""
    declare_all()
    place = Path(tempfile.mkdtemp(prefix="jobqueued-fault-"))
    kind, *rest = arguments
    try:
        row = asyncio.run(WORK[kind](place, *rest))
    except Exception as error:
        row = Row(name, violations=1, remarks=[f"{type(error).__name__}: {error}"])
    row.name = name
    if row.lost or row.violations:
        row.remarks.append(f"kept in {place}")
    else:
        shutil.rmtree(place)
    return row


async def suffer(place: Path, name: str, times: int) -> Row:
    """One fault by itself, so often."""
    one = TRIALS.get(name) or FAULTS[name]
    missing = one.missing()
    if missing is not None:
        return Row(name, remarks=[f"not done: {missing}"])
    if isinstance(one, Trial):
        return await one.run(place, times)
    async with Campaign(place) as campaign:
        try:
            return await _suffer(campaign, one, times)
        except Exception as error:
            raise AssertionError(f"seed {campaign.seed}: {error!r}") from error


async def _suffer(campaign: Campaign, one: Fault, times: int) -> Row:
    if one.prepare is not None:
        one.prepare(campaign)
    await campaign.start()
    for _ in range(times):
        await one.inject(campaign)
    row = Row(one.name)
    row.add(times, await campaign.finish())
    return row


WORK: dict[str, Callable[..., Coroutine[Any, Any, Row]]] = {
    "suffer": suffer,
    "steady": steady,
    "stormy": stormy,
}

if __name__ == "__main__":
    sys.exit(main())
