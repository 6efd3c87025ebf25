"""Hours under faults: a daemon whose use of the machine is watched, and one that often dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.faults import FAULTS, Fault
from tests.fault.points import run_faulty
from tests.fault.table import Row
from tests.fault.watching import Use, describe, sample, slopes, task_file

SAMPLE_SECONDS = 1.0
WORKERS = 2
"""Elsewhere: what one loses, the other is given."""
STORM_SECONDS = 60.0
"""So long one storm lasts; then it is checked, and the next begins with a fresh file."""
MOST_BAD = 5
"""So many faults may end badly in one campaign before it is given up."""
FAULTS_BEFORE = 3
LEAST_SAMPLES = 600
"""Before that memory still grows because SQLite fills its caches."""


async def steady(place: Path, seconds: float, only: str = "") -> Row:
    """One daemon all the time, under the faults that do not end it; it must not grow."""
    row = Row("steady")
    samples: list[Use] = []
    async with Campaign(place, workers=WORKERS) as campaign:
        run_faulty(campaign.daemon, FAULT_TASKS=str(task_file(campaign.daemon)))
        lasting = [one for one in FAULTS.values() if not one.ends_daemon and only in one.name]
        faults = _prepared(campaign, lasting)
        await campaign.start()
        watching = asyncio.create_task(_watch(campaign, samples))
        try:
            times = await _suffer_any(campaign, faults, seconds, row)
        finally:
            watching.cancel()
        row.add(times, await campaign.finish())
        row.remarks.append(f"seed {campaign.seed}")
    if len(samples) < LEAST_SAMPLES:
        row.remarks.append(f"{len(samples)} samples are too few to see a slope")
        return row
    row.remarks.append(describe(samples))
    for text in slopes(samples):
        row.violations += 1
        row.remarks.append(text)
    return row


async def stormy(place: Path, seconds: float, only: str = "") -> Row:
    """All faults mixed, one storm after the other."""
    row, until = Row("stormy"), time.monotonic() + seconds
    number = 0
    while (left := until - time.monotonic()) > 0:
        number += 1
        directory = place / str(number)
        directory.mkdir()
        async with Campaign(directory, workers=WORKERS) as campaign:
            faults = _prepared(campaign, (one for one in FAULTS.values() if only in one.name))
            await campaign.start()
            times = await _suffer_any(campaign, faults, min(left, STORM_SECONDS), row)
            report = await campaign.finish()
            row.add(times, report)
            if report.violations:
                row.remarks.append(f"storm {number}, seed {campaign.seed}")
    return row


def _prepared(campaign: Campaign, faults: Iterable[Fault]) -> list[Fault]:
    """Those that can be done here, and the campaign ready for each of them."""
    possible = [one for one in faults if one.missing() is None]
    for prepare in {one.prepare for one in possible if one.prepare is not None}:
        prepare(campaign)
    return possible


async def _suffer_any(campaign: Campaign, faults: list[Fault], seconds: float, row: Row) -> int:
    """Faults in any order for so long; how many there were.

    One that does not go as it should is a violation, and the next may go well.
    """
    until, times, bad = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until and bad < MOST_BAD:
        one = campaign.chance.choice(faults)
        try:
            await one.inject(campaign)
        except Exception as error:
            bad += 1
            row.violations += 1
            row.remarks.append(_what_went_wrong(campaign, one, error))
            if not campaign.daemon.is_up:
                await campaign.restart()
        times += 1
    return times


def _what_went_wrong(campaign: Campaign, one: Fault, error: Exception) -> str:
    history = campaign.history
    seconds = time.monotonic() - history.began.monotonic
    before = ", ".join(work.name for work in history.work[-FAULTS_BEFORE - 1 : -1])
    return f"seed {campaign.seed}, {seconds:.1f} s: {one.name}: {error!r}; before it: {before}"


async def _watch(campaign: Campaign, samples: list[Use]) -> None:
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        samples.append(sample(campaign.daemon))
