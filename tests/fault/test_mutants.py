"""Daemons that break a promise on purpose: the checker catches each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fault.campaign import Campaign
from tests.fault.checker import Report
from tests.fault.daemon import talk
from tests.fault.faulty import MUTANTS, wrap
from tests.fault.handlers.notes import Notes
from tests.fault.leases import lease_one, settle
from tests.fault.limited import kill_with_limits, set_limits
from tests.fault.points import died, run_faulty

EARLY, UNFENCED, UNLIMITED = "answer before COMMIT", "without fencing", "without limits"
LIMITS = {
    "no more jobs run at a time than there are workers, and than a type may",
    "no more jobs of one key run at a time than its type allows",
    "no more jobs of a type start in any time than its rate allows",
    "of every key as many as may run are in front, and they are the best",
}
"""What it breaks, on a fast machine all of it; the gates before it hold pauses and breakers."""
FENCING = "an outcome is recorded only by the attempt that holds the lease"


def test_these_are_all_mutants() -> None:
    assert set(MUTANTS) == {EARLY, UNFENCED, UNLIMITED}


@pytest.mark.parametrize("mutant", [None, EARLY], ids=["sound", "mutant"])
async def test_an_answer_before_the_commit_is_caught(tmp_path: Path, mutant: str | None) -> None:
    point = "after INSERT, before COMMIT"
    async with Campaign(tmp_path) as campaign:
        run_faulty(campaign.daemon)
        if mutant is not None:
            campaign.daemon.variables["FAULT_MUTANT"] = mutant
        await campaign.start()
        for _ in range(3):
            campaign.daemon.crash()
            # The pause lets an answer that does not wait for the commit go out.
            campaign.daemon.launch(FAULT_POINT=point, FAULT_COUNT="5", FAULT_PAUSE="0.2")
            await died(campaign, point)
        report = await campaign.finish()
    assert (report.lost > 0) == (mutant is not None), report
    assert mutant is not None or report.broken == 0, report


@pytest.mark.parametrize("mutant", [None, UNFENCED], ids=["sound", "mutant"])
async def test_an_outcome_without_a_lease_is_caught(tmp_path: Path, mutant: str | None) -> None:
    async with Campaign(tmp_path, clients=0, workers=0) as campaign:
        run_faulty(campaign.daemon)
        if mutant is not None:
            campaign.daemon.variables["FAULT_MUTANT"] = mutant
        await campaign.start()
        report = await settle_late(campaign)
    if mutant is None:
        assert report.broken == 0, report
    else:
        assert FENCING in report.violations, report


async def settle_late(campaign: Campaign) -> Report:
    """Two workers have the same job, the first because it did not notice that time went by."""
    notes = Notes(str(campaign.place), "remote")
    wanted = campaign.client.plain_job("remote")
    async with talk(campaign.daemon) as session:
        await campaign.client.submit(session, [wanted])
        first = await lease_one(session)
        pause = campaign.history.injected("pause of a worker by hand", os.getpid())
        with notes.execution(first["id"], first["attempt"]):
            second = await lease_one(session)
        campaign.over(pause)
        with notes.execution(second["id"], second["attempt"]):
            await settle(session, campaign.history, first)
        await settle(session, campaign.history, second)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    return await campaign.finish()


async def test_claims_beyond_all_limits_are_caught(tmp_path: Path) -> None:
    async with Campaign(tmp_path) as campaign:
        run_faulty(campaign.daemon, FAULT_MUTANT=UNLIMITED)
        set_limits(campaign)
        await campaign.start()
        for _ in range(3):
            await kill_with_limits(campaign)
        report = await campaign.finish()
    assert report.violations.keys() & LIMITS, report


async def test_a_fault_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    async with Campaign(tmp_path, clients=0, workers=0) as campaign:
        run_faulty(campaign.daemon)
        campaign.daemon.launch(FAULT_POINT="no such point")
        assert await campaign.daemon.ended() == 1
        assert "KeyError: 'no such point'" in campaign.daemon.log()


def test_what_is_no_longer_there_cannot_be_wrapped() -> None:
    with pytest.raises(AttributeError):
        wrap(Campaign, "no_such_name", lambda original: original)
