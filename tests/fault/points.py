"""kill -9 at named points: the daemon kills itself where it hurts most."""

from __future__ import annotations

import asyncio
import signal
from functools import partial

from tests.api.support import ROOT
from tests.fault.campaign import Campaign
from tests.fault.daemon import FaultDaemon, talk
from tests.fault.executions import read_executions
from tests.fault.faults import fault
from tests.fault.faulty import POINTS, STAGES

LAST_COUNT = 8
"""The point is passed up to so many times before it kills."""
MIGRATION_STEPS = 9
"""Statements of a migration with its backup, and the moment after the last."""
LONG_SECONDS = 1.5
"""Longer than the drain and kill stages of the shutdown together."""


def run_faulty(daemon: FaultDaemon, **variables: str) -> None:
    """Have the daemon started with faults built in from now on."""
    daemon.program = (str(ROOT / "tests" / "fault" / "faulty.py"),)
    daemon.variables |= variables


async def die_at(campaign: Campaign, point: str, count: int) -> None:
    """A daemon that kills itself at a point, in place of the one that runs, and one after it."""
    await launch_armed(campaign, point, count)
    await died(campaign, point)


async def launch_armed(campaign: Campaign, point: str, count: int) -> None:
    await campaign.a_while()
    campaign.daemon.crash()
    run_faulty(campaign.daemon)
    campaign.daemon.launch(FAULT_POINT=point, FAULT_COUNT=str(count))


async def died(campaign: Campaign, point: str) -> None:
    """Wait until the point was reached, and start a sound daemon."""
    code = await campaign.daemon.ended()
    assert code == -signal.SIGKILL, f"{point}: exit {code}: {campaign.daemon.log()[-2000:]}"
    campaign.history.injected(f"kill -9 {point}", campaign.daemon.process.pid)
    await campaign.restart()


async def at_point(point: str, campaign: Campaign) -> None:
    await die_at(campaign, point, campaign.chance.randint(1, LAST_COUNT))


async def in_checkpoint(campaign: Campaign) -> None:
    await die_at(campaign, "during a checkpoint", 1)


async def in_migration(campaign: Campaign) -> None:
    """Each time there is one more migration to do than the file has seen."""
    variables = campaign.daemon.variables
    variables["FAULT_SCHEMAS"] = str(int(variables.get("FAULT_SCHEMAS", "0")) + 1)
    count = campaign.chance.randint(1, MIGRATION_STEPS)
    await die_at(campaign, "during a migration", count)


async def in_stage(stage: str, campaign: Campaign) -> None:
    point = f"in the shutdown stage {stage}"
    await launch_armed(campaign, point, 1)
    await campaign.daemon.ready()
    if stage in ("terminate", "kill"):
        await run_long_job(campaign, stubborn=stage == "kill")
    await campaign.a_while()
    campaign.history.injected("orderly stop", campaign.daemon.process.pid)
    campaign.daemon.process.terminate()
    await died(campaign, point)


async def run_long_job(campaign: Campaign, *, stubborn: bool) -> None:
    """Have a job that keeps the shutdown waiting; returns when its handler works."""
    wanted = campaign.client.plain_job("single", seconds=LONG_SECONDS, stubborn=stubborn)
    # Without retries: those of earlier rounds would run again first, one by one.
    wanted.priority, wanted.max_retries = 9, 0
    async with talk(campaign.daemon) as session:
        submission = await campaign.client.submit(session, [wanted])
    assert submission.ids, submission
    async with asyncio.timeout(20):
        while True:
            if any(one.job_id in submission.ids for one in read_executions(campaign.place)):
                return
            await asyncio.sleep(0.02)


SPECIAL = {"during a checkpoint": in_checkpoint, "during a migration": in_migration}
SPECIAL |= {f"in the shutdown stage {stage}": partial(in_stage, stage) for stage in STAGES}
for _point in POINTS:
    fault(f"kill -9 {_point}", ends_daemon=True)(
        SPECIAL.get(_point, partial(at_point, _point)),
    )
