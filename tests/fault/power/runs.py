"""Runs of the real daemon under load, with everything it does to its files on record."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.daemon import CONFIG, talk
from tests.fault.executions import read_executions
from tests.fault.history import History
from tests.fault.points import run_faulty
from tests.fault.power.cuts import Run
from tests.fault.power.promises import promises
from tests.fault.power.recording import recorder
from tests.fault.rules.submissions import LOST

Step = Callable[[Campaign], Awaitable[None]]

NORMAL = 'durability = "normal"\n' + CONFIG
"""The first line belongs to the table of the store, which comes before."""
RETENTION_SECONDS = 0.99
"""A little less than configured: the daemon counts in whole milliseconds."""
SHORT_LIVED = CONFIG + '[retention]\ncompleted = "1s"\ndead = "1s"\ncancelled = "1s"\n'
"""Jobs with an idempotency key stay as long as the key counts, which is a day."""
BIG, BIG_JOBS, BIG_BATCHES = "x" * 60_000, 50, 3
EASY = {"seconds": 0.0, "failures": 0, "fatal": False}
LONGEST_WAIT = 30.0
OUTLIVED = (
    LOST,
    "a job that was shown never disappears",
    "every execution belongs to an attempt on record, and every success to an execution",
    "a batch is stored whole or not at all",
    "work is done twice only when a fault was there",
)
"""Rules for runs in which no job is removed."""


@dataclass(slots=True)
class Recorded:
    """A run, with what is needed to go on from the middle of it."""

    run: Run
    history: History
    config: str
    more_schemas: int
    excused: dict[str, str] = field(default_factory=dict)
    """Rules that do not hold for what is left of it."""


async def record(
    place: Path,
    steps: Sequence[Step],
    *,
    config: str = CONFIG,
    seed: str | None = None,
    pause: float = 0.04,
    retention: float = math.inf,
    more_schemas: int = 0,
    database: str = "jobs.db",
) -> Recorded:
    """A daemon under load from its first start to its end, with whatever else is done to it."""
    place = _real(place)
    trace = place / "trace"
    async with Campaign(place, seed=seed, config=config, pause=pause) as campaign:
        campaign.daemon.variables |= recorder(place, trace)
        _store_in(campaign.daemon.config_path, place / database)
        await campaign.start()
        for step in steps:
            await step(campaign)
        await campaign.clients.stop()
        await campaign.drain()
        assert await campaign.daemon.stop_in_order() == 0, campaign.daemon.log()
    promised = promises(campaign.history, read_executions(place), retention)
    for seen in campaign.history.sightings:
        early = not promised.may_be_gone(seen.job_id, seen.at.monotonic)
        assert seen.status != "missing" or not early, f"{seen.job_id} went before its time"
    run = Run(place, trace, promised, database)
    run.schema += more_schemas
    excused = {} if retention == math.inf else dict.fromkeys(OUTLIVED, "jobs outlive retention")
    return Recorded(run, campaign.history, config, more_schemas, excused)


def _real(place: Path) -> Path:
    """As the record knows it, without links."""
    return place.resolve()


def _store_in(config: Path, database: Path) -> None:
    text = config.read_text()
    config.write_text(text.replace('/jobs.db"', f'/{database.relative_to(config.parent)}"'))


def work(seconds: float) -> Step:
    """Let the load run."""

    async def step(_: Campaign) -> None:
        await asyncio.sleep(seconds)

    return step


def idle(seconds: float) -> Step:
    """Nothing to do for a while."""

    async def step(campaign: Campaign) -> None:
        await campaign.clients.stop()
        await campaign.drain()
        await asyncio.sleep(seconds)

    return step


async def stop_and_start(campaign: Campaign) -> None:
    """An orderly end, which copies the log into the database and removes it, and a new start."""
    assert await campaign.daemon.stop_in_order() == 0, campaign.daemon.log()
    await campaign.restart()


async def migrate(campaign: Campaign) -> None:
    """Stop, and start a version with one schema more."""
    assert await campaign.daemon.stop_in_order() == 0, campaign.daemon.log()
    run_faulty(campaign.daemon, FAULT_SCHEMAS="1")
    await campaign.restart()


async def grow_and_shrink(campaign: Campaign) -> None:
    """Big jobs that outlive their retention, until the database gives back their space."""
    async with talk(campaign.daemon) as session:
        for _ in range(BIG_BATCHES):
            jobs = [campaign.client.new_job(padding=BIG, **EASY) for _ in range(BIG_JOBS)]
            for job in jobs:
                job.type, job.delay, job.key = "webhook", 0.0, None
            await campaign.client.submit(session, jobs, batch=True)
    largest = 0
    async with asyncio.timeout(LONGEST_WAIT):
        while (size := campaign.daemon.database.stat().st_size) >= largest:
            largest = size
            await asyncio.sleep(0.05)
