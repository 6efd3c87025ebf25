"""Orderly stops under load: nothing is lost, and nobody is charged for it."""

from __future__ import annotations

from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.evidence import read_database
from tests.fault.kills import restart_in_order

CHARGED = {"lost", "crashed", "timeout"}


async def test_stopping_under_load_loses_and_charges_nothing(tmp_path: Path) -> None:
    async with Campaign(tmp_path) as campaign:
        await campaign.start()
        for _ in range(3):
            await restart_in_order(campaign)
        report = await campaign.finish()
    assert report.broken == 0, f"seed {campaign.seed}: {report}"
    jobs = read_database(tmp_path / "jobs.db").jobs.values()
    assert [one for job in jobs for one in job.attempts if one.outcome in CHARGED] == []
