"""An executor with a real launcher, and tasks to give it."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from jobqueued import clock
from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed, Lease
from jobqueued.model.job_type import CommandHandler, JobType

POLL = 0.01


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here runs on both event loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def executor() -> AsyncIterator[CommandExecutor]:
    running = CommandExecutor()
    await running.start()
    yield running
    await running.close()


_numbers = itertools.count(1)


def task_of(
    *argv: str,
    payload: bytes = b"{}",
    timeout: int = 120_000,
    correlation_id: str | None = None,
    key: str | None = None,
    token: str | None = None,
    **handler: object,
) -> Task:
    """One attempt that runs `argv`; the rest are fields of the handler."""
    number = next(_numbers)
    now = clock.now()
    claimed = Claimed(
        lease=Lease(f"job-{number}", 3, token or f"token-{os.getpid()}-{number}"),
        type="sample",
        payload=payload,
        payload_intact=True,
        priority=7,
        max_retries=4,
        failures=0,
        losses=0,
        created_at=1_700_000_000_123,
        started_at=now,
        correlation_id=correlation_id,
        key=key,
        tenant=None,
        pool="default",
        worker="default-1",
    )
    command = CommandHandler(argv=argv, **handler)  # type: ignore[arg-type]
    job_type = JobType(name="sample", handler=command, timeout=timeout)
    return Task(claimed, job_type, 1_700_000_100_000, "http://127.0.0.1:5627", Output())


def python(source: str) -> tuple[str, ...]:
    """A command that runs this Python source, quick to start."""
    return (sys.executable, "-I", "-S", "-c", source)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(POLL)


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that is not collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
