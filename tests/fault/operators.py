"""People at work beside the daemon: with `sqlite3` on its file, or with a second daemon."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

from tests.acceptance.support import environment, serve_command
from tests.api.support import PATIENCE, ROOT
from tests.fault.campaign import Campaign
from tests.fault.faults import fault

HELD_BY_ANOTHER = 75
SCRIPT = str(ROOT / "tests" / "fault" / "handlers" / "beside.py")


async def operator(campaign: Campaign, seconds: float) -> Process:
    """A program that has the file locked for so long, from now on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, str(campaign.daemon.database), str(seconds), stdout=PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"locked\n"
    return process


@fault("an operator writes into the file", ends_daemon=False, times=20)
async def write_beside(campaign: Campaign) -> None:
    """The daemon waits for its turn, and goes on."""
    await campaign.daemon.ready()
    process = await operator(campaign, campaign.chance.uniform(0, 0.5))
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0
    assert campaign.daemon.is_up, campaign.daemon.log()[-2000:]


@fault("an operator is killed in the middle of a write", ends_daemon=False, times=20)
async def die_beside(campaign: Campaign) -> None:
    await campaign.daemon.ready()
    process = await operator(campaign, PATIENCE)
    await campaign.a_while()
    process.kill()
    await process.wait()
    await campaign.daemon.ready()


@fault("a second daemon on the same file", ends_daemon=False, times=10)
async def second_daemon(campaign: Campaign) -> None:
    """It gives up at once; the first does not even notice."""
    await campaign.daemon.ready()
    process = await asyncio.create_subprocess_exec(
        *serve_command(campaign.daemon.config_path),
        env=environment(campaign.place),
        stdout=DEVNULL,
        stderr=PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        _, said = await process.communicate()
    assert process.returncode == HELD_BY_ANOTHER, said
    assert f"pid {campaign.daemon.process.pid}".encode() in said
    await campaign.daemon.ready()
