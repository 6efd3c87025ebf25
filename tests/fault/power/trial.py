"""Power loss in the long runs: thousands of moments, some of them with a daemon after them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.fault.campaign import Campaign
from tests.fault.checker import Report
from tests.fault.faults import FAULTS, trial
from tests.fault.power.aftermath import go_on
from tests.fault.power.chance import NOTHING
from tests.fault.power.cuts import draw_cuts, judge
from tests.fault.power.inspection import Findings
from tests.fault.power.runs import (
    NORMAL,
    RETENTION_SECONDS,
    SHORT_LIVED,
    Recorded,
    grow_and_shrink,
    migrate,
    record,
    stop_and_start,
    work,
)
from tests.fault.preload import no_compiler
from tests.fault.table import Row

ONE_DAEMON_IN = 20
FIRST_OPERATIONS = 250
"""Those of a first start and a few jobs."""
KILL = "kill -9 at a random moment"
SCENARIOS: dict[str, dict[str, Any]] = {
    "under load": {"steps": [work(4), stop_and_start, work(4)]},
    "at the first start": {"steps": [work(0.5)]},
    "while the database shrinks": {
        "steps": [work(1), grow_and_shrink, work(2)],
        "config": SHORT_LIVED,
        "retention": RETENTION_SECONDS,
    },
    "around a migration": {"steps": [work(2), migrate, work(1)], "more_schemas": 1},
}
TIMES = {"under load": 1000, "at the first start": 400, "around a migration": 300}


async def lose_power(place: Path, times: int, scenario: str) -> Row:
    """Record a run, cut its power so often, and look; after some of the cuts go on."""
    recorded = await record(place, **SCENARIOS[scenario])
    operations = recorded.run.operations()
    seed = secrets.token_hex(4)
    reach = FIRST_OPERATIONS if scenario == "at the first start" else len(operations)
    cuts = draw_cuts(operations[:reach], times, seed)
    findings = await asyncio.to_thread(judge, recorded.run, operations, cuts)
    reports = await go_on(recorded, cuts[::ONE_DAEMON_IN])
    return summed_up(times, findings, reports, seed)


def summed_up(
    times: int, findings: Sequence[Findings], reports: Sequence[Report], seed: str
) -> Row:
    """All that was found, as a row."""
    row = Row("power loss", times)
    for found in findings:
        row.lost += len(found.lost)
        row.violations += len(found.violations) + len(found.corrupt)
        row.remarks += [f"seed {seed}: {text}" for text in (*found.corrupt, *found.violations)[:3]]
    for report in reports:
        row.add(0, report)
    row.remarks.append(f"a daemon went on after {len(reports)} of the cuts")
    return row


for _scenario in SCENARIOS:
    trial(f"power loss {_scenario}", times=TIMES.get(_scenario, 300), missing=no_compiler)(
        partial(lose_power, scenario=_scenario)
    )


@trial("power loss with normal durability, damage only", times=400, missing=no_compiler)
async def lose_moments(place: Path, times: int) -> Row:
    """Jobs may be lost here: that is measured and remarked, not counted; damage is."""
    row = Row("", times)
    for name, pause in (("busy", 0.04), ("quiet", 1.0)):
        (place / name).mkdir()
        recorded = await record(place / name, [work(8)], config=NORMAL, pause=pause)
        findings = await asyncio.to_thread(cut_to_the_synced, recorded, times // 2)
        row.violations += sum(len(found.corrupt) for found in findings)
        row.remarks.append(f"{name}, in 8 s: {loss_window(findings)}")
    return row


def cut_to_the_synced(recorded: Recorded, times: int) -> list[Findings]:
    """Cuts that leave nothing but what was synced."""
    operations = recorded.run.operations()
    cuts = draw_cuts(operations, times, secrets.token_hex(4), NOTHING)
    return judge(recorded.run, operations, cuts)


def loss_window(findings: Sequence[Findings]) -> str:
    """How much the worst of the cuts cost."""
    most = max(len(found.lost) for found in findings)
    oldest = max(found.oldest_lost for found in findings)
    return f"at most {most} jobs lost, acknowledged up to {oldest:.1f} s before"


@trial("kill -9 with normal durability", times=100)
async def kill_without_syncs(place: Path, times: int) -> Row:
    """Nothing is lost: what the process wrote stays when only the process goes."""
    row = Row("")
    async with Campaign(place, config=NORMAL) as campaign:
        await campaign.start()
        for _ in range(times):
            await FAULTS[KILL].inject(campaign)
        row.add(times, await campaign.finish())
    return row
