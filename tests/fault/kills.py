"""The end of the daemon and of what works for it, at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.faults import fault

LONGEST_LIFE = 0.5
"""Seconds from the start of a process: some are killed before they take jobs."""


@fault("kill -9 at a random moment", ends_daemon=True, times=300)
async def kill_daemon(campaign: Campaign) -> None:
    await campaign.a_while(LONGEST_LIFE)
    campaign.daemon.crash()
    campaign.daemon.launch()
    if campaign.chance.random() < 0.5:
        await campaign.daemon.ready()


@fault("an orderly stop and a new start", ends_daemon=True)
async def restart_in_order(campaign: Campaign) -> None:
    await campaign.a_while(LONGEST_LIFE)
    code = await campaign.daemon.stop_in_order()
    assert code == 0, f"exit {code}: {campaign.daemon.log()[-2000:]}"
    await campaign.restart()


@fault("kill -9 of a remote worker", ends_daemon=False)
async def kill_worker(campaign: Campaign) -> None:
    await campaign.a_while()
    worker = campaign.chance.choice(campaign.workers)
    worker.kill()
    worker.start()


@fault("kill -9 of the receiver of webhooks", ends_daemon=False)
async def kill_receiver(campaign: Campaign) -> None:
    await campaign.a_while()
    assert campaign.receiver is not None
    fault = campaign.receiver.kill()
    await campaign.a_while()
    campaign.receiver.start()
    await campaign.receiver_listens()
    campaign.over(fault)


@fault("kill -9 of a handler", ends_daemon=False)
async def kill_handler(campaign: Campaign) -> None:
    """A Python child, warm or at work, or the process of a command."""
    found: list[int] = []
    async with asyncio.timeout(10):
        while not found:
            await campaign.a_while()
            found = handlers_of(campaign.daemon.process.pid)
    victim = campaign.chance.choice(found)
    campaign.history.injected("kill -9 of a handler", victim)
    # One that hides from its launcher would work on while its job runs again.
    for pid in (*descendants_of(victim), victim):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def handlers_of(daemon: int) -> list[int]:
    """The processes that the launchers of a daemon have started and that run their program."""
    return [
        child
        for launcher in children_of(daemon)
        for child in children_of(launcher)
        if command_of(child) not in (b"", command_of(launcher))
    ]


def descendants_of(pid: int) -> list[int]:
    """All that a process has started, and what those have, the youngest first."""
    children = children_of(pid)
    return [*(each for child in children for each in descendants_of(child)), *children]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]
