"""Faults of the disk under load: errors, no space, a quota, read-only, slowness."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.api.support import PATIENCE
from tests.fault.campaign import Campaign
from tests.fault.daemon import talk
from tests.fault.faults import fault
from tests.fault.leases import SHORTEST_LEASE
from tests.fault.preload import CHANGES, NO_SPACE, READ_ONLY, Calls, FaultyDisk, no_compiler

IO_ERROR = 74
RESUME_SECONDS = 5.0
SYNC_MILLISECONDS = 200
NO_JOB = "01900000-0000-7000-8000-000000000000"
MOST_CALLS = 600
"""Under load that many come within a second or two."""
OnDisk = Callable[[Campaign, FaultyDisk], Awaitable[None]]
_disks: dict[Path, FaultyDisk] = {}


def control_disk(campaign: Campaign) -> None:
    """Have the daemon's calls on its files under control."""
    disk = _disks[campaign.place] = FaultyDisk(campaign.daemon.database)
    campaign.daemon.variables = disk.under_control(campaign.daemon.variables)


def disk_of(campaign: Campaign) -> FaultyDisk:
    """The disk of a campaign that was prepared with `control_disk`."""
    return _disks[campaign.place]


def disk_fault(name: str, *, ends_daemon: bool, times: int) -> Callable[[OnDisk], OnDisk]:
    """Declare a fault of the disk, which works again afterwards whatever happened."""

    def add(inject: OnDisk) -> OnDisk:
        async def whole(campaign: Campaign) -> None:
            disk = disk_of(campaign)
            await campaign.daemon.ready()
            try:
                await inject(campaign, disk)
            finally:
                disk.heal()

        declare = fault(
            name, ends_daemon=ends_daemon, times=times, missing=no_compiler, prepare=control_disk
        )
        declare(whole)
        return inject

    return add


@disk_fault("I/O error at the Nth call", ends_daemon=True, times=40)
async def one_error(campaign: Campaign, disk: FaultyDisk) -> None:
    """Wherever it strikes, the daemon stops: only a fresh start knows what is on disk."""
    await campaign.a_while()
    number = campaign.chance.randint(0, MOST_CALLS)
    disk.fail(CHANGES, errno.EIO, after=number, times=1)
    await gives_up(campaign, "I/O error")
    disk.heal()
    await campaign.restart()


@disk_fault("a disk that is gone for good", ends_daemon=True, times=10)
async def every_call_fails(campaign: Campaign, disk: FaultyDisk) -> None:
    """So does the next start, until the disk is back."""
    await lose_disk(campaign, disk, CHANGES | Calls.OPEN)


@disk_fault("a disk that cannot even be read", ends_daemon=True, times=10)
async def reading_fails(campaign: Campaign, disk: FaultyDisk) -> None:
    await lose_disk(campaign, disk, CHANGES | Calls.OPEN | Calls.READ)


async def lose_disk(campaign: Campaign, disk: FaultyDisk, calls: Calls) -> None:
    """Every call fails, and the file is whole when the disk is back."""
    await campaign.a_while()
    disk.fail(calls, errno.EIO)
    await gives_up(campaign, "disk gone")
    campaign.daemon.launch()
    assert await campaign.daemon.ended() == IO_ERROR, campaign.daemon.log()[-2000:]
    disk.heal()
    await campaign.restart()


@disk_fault("a file system that becomes read-only", ends_daemon=True, times=10)
async def read_only(campaign: Campaign, disk: FaultyDisk) -> None:
    await campaign.a_while()
    disk.fail(READ_ONLY, errno.EROFS)
    await gives_up(campaign, "read-only")
    campaign.daemon.launch()
    assert await campaign.daemon.ended() == IO_ERROR, campaign.daemon.log()[-2000:]
    assert "Read-only file system" in campaign.daemon.log()
    disk.heal()
    await campaign.restart()


@disk_fault("no space left, not even from the reserve", ends_daemon=False, times=10)
async def no_space(campaign: Campaign, disk: FaultyDisk) -> None:
    await run_out(campaign, disk, errno.ENOSPC)


@disk_fault("a quota that is used up", ends_daemon=False, times=10)
async def quota(campaign: Campaign, disk: FaultyDisk) -> None:
    await run_out(campaign, disk, errno.EDQUOT)


async def run_out(campaign: Campaign, disk: FaultyDisk, error: int) -> None:
    """The daemon refuses submissions and stays, and resumes by itself."""
    await campaign.a_while()
    began = campaign.history.injected("no space")
    disk.fail(NO_SPACE, error)
    await refused(campaign)
    await campaign.a_while(1.0)
    assert campaign.daemon.is_up, campaign.daemon.log()[-2000:]
    disk.heal()
    freed = time.monotonic()
    await campaign.daemon.ready()
    assert time.monotonic() - freed < RESUME_SECONDS
    campaign.over(began)


async def refused(campaign: Campaign) -> None:
    """Wait until the daemon writes nothing more, and says when to come back."""
    async with asyncio.timeout(PATIENCE), talk(campaign.daemon) as session:
        while True:
            async with session.post(f"/jobs/{NO_JOB}/cancel") as reply:
                if reply.status != 404:
                    assert reply.status == 503, await reply.text()
                    assert int(reply.headers["Retry-After"]) >= 1
                    return
            await asyncio.sleep(0.01)


@disk_fault("a slow disk: 200 ms a sync", ends_daemon=False, times=5)
async def slow(campaign: Campaign, disk: FaultyDisk) -> None:
    """Everything goes on, because many writes share a sync; no lease is lost."""
    await no_lease_runs_out(campaign)
    disk.slow(Calls.SYNC, SYNC_MILLISECONDS)
    before = await totals(campaign)
    await asyncio.sleep(3)
    after = await totals(campaign)
    syncs = disk.seen
    assert syncs >= 5
    assert after["submitted"] - before["submitted"] > syncs, "less than a job a sync"
    assert after["leases_expired"] == before["leases_expired"]


async def no_lease_runs_out(campaign: Campaign) -> None:
    """Wait until those of workers that an earlier fault killed have all run out."""
    seen, since = -1, time.monotonic()
    async with asyncio.timeout(PATIENCE):
        while time.monotonic() - since <= SHORTEST_LEASE:
            expired = (await totals(campaign))["leases_expired"]
            if expired != seen:
                seen, since = expired, time.monotonic()
            await asyncio.sleep(0.1)


async def totals(campaign: Campaign) -> Counter[str]:
    """What the daemon has counted since its start."""
    async with talk(campaign.daemon, PATIENCE) as session, session.get("/stats") as reply:
        return Counter((await reply.json())["totals"])


async def gives_up(campaign: Campaign, name: str) -> None:
    """Wait until the daemon ends by itself, as it must when it cannot know what is on disk."""
    recorded = campaign.history.injected(name, campaign.daemon.process.pid)
    code = await campaign.daemon.ended()
    campaign.over(recorded)
    assert code == IO_ERROR, f"exit {code}: {campaign.daemon.log()[-2000:]}"
