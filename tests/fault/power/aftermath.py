"""The real daemon on the files that a power cut left: it starts, works off, and breaks no rule."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests.fault.campaign import Campaign
from tests.fault.checker import Report
from tests.fault.history import Answer, Cancellation, History, Injected, Moment, Submission
from tests.fault.points import run_faulty
from tests.fault.power.cuts import Cut, images, moment_of
from tests.fault.power.runs import Recorded

Call = TypeVar("Call", Submission, Cancellation)


async def go_on(recorded: Recorded, cuts: Sequence[Cut]) -> list[Report]:
    """After each of the cuts: start a daemon, let it finish everything, and check it all."""
    operations = recorded.run.operations()
    reports = []
    with tempfile.TemporaryDirectory() as target:
        for cut, image in images(recorded.run.place, operations, cuts, Path(target)):
            report = await _go_on_in(image, recorded, moment_of(operations, cut))
            reports.append(report)
    return reports


async def _go_on_in(image: Path, recorded: Recorded, moment: float) -> Report:
    async with Campaign(image, config=recorded.config, clients=0) as campaign:
        known = before(recorded.history, moment)
        history = campaign.history
        history.submissions += known.submissions
        history.cancellations += known.cancellations
        history.sightings += known.sightings
        history.faults += known.faults
        history.excused |= recorded.excused
        _copy_notes(recorded.run.place, image, moment)
        if recorded.more_schemas:
            run_faulty(campaign.daemon, FAULT_SCHEMAS=str(recorded.more_schemas))
        await campaign.start()
        # The receiver of webhooks had no power either, and is back later than the daemon.
        campaign.over(history.faults[-1])
        return await campaign.finish()


def before(history: History, moment: float) -> History:
    """What was known when the power went: answers that came later never came."""
    return History(
        submissions=[_as_known(one, moment) for one in history.submissions if _by(one, moment)],
        cancellations=[_as_known(one, moment) for one in history.cancellations if _by(one, moment)],
        sightings=[seen for seen in history.sightings if seen.at.monotonic < moment],
        faults=[
            *(fault for fault in history.faults if fault.began.monotonic < moment),
            _power_cut(moment),
        ],
    )


def _by(call: Submission | Cancellation, moment: float) -> bool:
    return call.invoked.monotonic < moment


def _as_known(call: Call, moment: float) -> Call:
    if call.answered is not None and call.answered.monotonic < moment:
        return call
    if isinstance(call, Submission):
        return replace(call, answer=Answer.UNKNOWN, answered=None, status=None, ids=[])
    return replace(call, answer=Answer.UNKNOWN, answered=None, job_status=None)


def _power_cut(moment: float) -> Injected:
    at = Moment(moment, moment + time.time() - time.monotonic())
    return Injected("power loss", at, at)


def _copy_notes(source: Path, target: Path, moment: float) -> None:
    """What the handlers had noted by then; who was at work never came to its end."""
    lines = (source / "executions").read_text().splitlines(keepends=True)
    noted = [line for line in lines if float(line.split()[5]) < moment]
    (target / "executions").write_text("".join(noted))
