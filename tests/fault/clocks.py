"""The wall clock is set while jobs run."""

from __future__ import annotations

from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.faults import fault
from tests.fault.preload import JumpingClock, no_compiler

HOUR, DAY = 3600, 86400
FURTHEST = 3 * DAY
"""Ahead of the real clock: retention and the window of keys are longer."""
BY_DATE = {
    "attempts follow each other in time": "dates on record are of a clock that was set",
    "nothing starts before its time": "the time came when the clock was set",
}
_clocks: dict[Path, JumpingClock] = {}


def control_clock(campaign: Campaign) -> None:
    """Have the wall clock of the daemon under control, and keys that outlive its jumps."""
    daemon = campaign.daemon
    clock = _clocks[campaign.place] = JumpingClock(campaign.place)
    daemon.variables = clock.under_control(daemon.variables)
    config = daemon.config_path.read_text()
    daemon.config_path.write_text(f'{config}\n[queue]\nidempotency_window = "7d"\n')


def clock_of(campaign: Campaign) -> JumpingClock:
    """The clock of a campaign that was prepared with `control_clock`."""
    return _clocks[campaign.place]


@fault(
    "the clock is set by an hour or a day, both ways",
    ends_daemon=False,
    times=10,
    missing=no_compiler,
    prepare=control_clock,
)
async def set_clock(campaign: Campaign) -> None:
    """Back and forth: what waits for a date has its date again in the end."""
    await campaign.daemon.ready()
    clock = clock_of(campaign)
    for rule, why in BY_DATE.items():
        campaign.history.excuse(rule, why)
    jump = campaign.chance.choice([HOUR, DAY])
    await campaign.a_while()
    _set(campaign, -jump)
    await campaign.a_while(1.0)
    _set(campaign, jump)
    if clock.offset / 1000 + jump < FURTHEST:
        await campaign.a_while()
        _set(campaign, jump)


def _set(campaign: Campaign, seconds: float) -> None:
    """Set the clock forward or back, on record."""
    clock = clock_of(campaign)
    clock.jump(seconds)
    campaign.history.clock_set(clock.offset / 1000)
