"""Processes that are stopped and go on later: the daemon, its launchers, handlers and workers."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from tests.fault.campaign import Campaign
from tests.fault.faults import fault
from tests.fault.kills import children_of, handlers_of

PAST_A_LEASE = 5.5
"""Seconds; leases elsewhere run for five."""


async def pause(campaign: Campaign, pid: int, name: str, seconds: float) -> None:
    """Stop a process for a while, on record."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        recorded = campaign.history.injected(f"pause of {name}", pid)
        try:
            await asyncio.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            campaign.over(recorded)


@fault("the daemon is stopped past every lease", ends_daemon=False, times=3)
async def stop_daemon(campaign: Campaign) -> None:
    await campaign.daemon.ready()
    await pause(campaign, campaign.daemon.process.pid, "the daemon", PAST_A_LEASE)
    await campaign.daemon.ready()


@fault("the daemon is stopped for a moment", ends_daemon=False, times=10)
async def stop_daemon_shortly(campaign: Campaign) -> None:
    await campaign.daemon.ready()
    seconds = campaign.chance.uniform(0.1, 1.0)
    await pause(campaign, campaign.daemon.process.pid, "the daemon", seconds)
    await campaign.daemon.ready()


@fault("a remote worker is stopped past its lease", ends_daemon=False, times=3)
async def stop_worker(campaign: Campaign) -> None:
    """Its jobs run again; what it reports when it goes on is refused."""
    await campaign.a_while()
    worker = campaign.chance.choice(campaign.workers)
    await pause(campaign, worker.process.pid, "a remote worker", PAST_A_LEASE)


@fault("a launcher is stopped", ends_daemon=False, times=10)
async def stop_launcher(campaign: Campaign) -> None:
    launchers = children_of(campaign.daemon.process.pid)
    if launchers:
        seconds = campaign.chance.uniform(0.1, 1.0)
        await pause(campaign, campaign.chance.choice(launchers), "a launcher", seconds)


@fault("a handler is stopped", ends_daemon=False, times=10)
async def stop_handler(campaign: Campaign) -> None:
    handlers = handlers_of(campaign.daemon.process.pid)
    if handlers:
        seconds = campaign.chance.uniform(0.1, 1.0)
        await pause(campaign, campaign.chance.choice(handlers), "a handler", seconds)
