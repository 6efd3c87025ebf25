"""Faults in their short form: a few of them, one after the other, in one campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.campaign import Campaign
from tests.fault.checker import Report
from tests.fault.faults import FAULTS


async def suffer(place: Path, *names: str) -> Report:
    """A campaign with these faults; nothing may be lost, and no rule broken."""
    faults = [FAULTS[name] for name in names]
    for fault in faults:
        if (missing := fault.missing()) is not None:
            pytest.skip(missing)
    async with Campaign(place) as campaign:
        for prepare in {fault.prepare for fault in faults if fault.prepare is not None}:
            prepare(campaign)
        await campaign.start()
        for fault in faults:
            await campaign.a_while()
            await fault.inject(campaign)
            assert campaign.daemon.is_up
        report = await campaign.finish()
        assert report.broken == 0, f"{report}; seed {campaign.seed}"
        return report
