"""Attempts a second through the command executor alone, against a bare posix_spawn loop."""

from __future__ import annotations

import asyncio
import os
import time
from statistics import median

import uvloop

from benchmarks.support import Figure, say
from jobqueued import clock
from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed, Lease
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.model.outcome import OutcomeKind

CONCURRENT = 10
COUNT = 2000
ROUNDS = 3
MEMORY = 512 * 1024 * 1024


def measure() -> list[Figure]:
    """Bare, through the executor, and with a memory limit, in turn."""
    bares: list[float] = []
    plain: list[float] = []
    limited: list[float] = []
    for number in range(1, ROUNDS + 1):
        say(f"  round {number} of {ROUNDS}")
        bares.append(bare(COUNT))
        plain.append(uvloop.run(executor(COUNT)))
        limited.append(uvloop.run(executor(COUNT, MEMORY)))
    reference, against = median(bares), "bare posix_spawn loop"
    return [
        Figure("command executor, 10 at a time", median(plain), "attempts/s", reference, against),
        Figure("the same with a memory limit", median(limited), "attempts/s", reference, against),
    ]


def bare(count: int) -> float:
    """Processes a second, started and collected one after the other."""
    began = time.perf_counter()
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)
    return count / (time.perf_counter() - began)


async def executor(count: int, memory: int | None = None) -> float:
    """Attempts a second through the executor, ten at a time."""
    handler = CommandHandler(argv=("/bin/true",), memory=memory)
    job_type = JobType(name="true", handler=handler)
    commands = CommandExecutor()
    await commands.start()
    began = time.perf_counter()
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            outcome = await commands.run(task_of(number, job_type))
            assert outcome.kind is OutcomeKind.COMPLETED, outcome

    await asyncio.gather(*(worker() for _ in range(CONCURRENT)))
    rate = count / (time.perf_counter() - began)
    await commands.close()
    return rate


def task_of(number: int, job_type: JobType) -> Task:
    """One attempt to run."""
    now = clock.now()
    claimed = Claimed(
        lease=Lease(f"job-{number}", 1, f"token-{number}"),
        type=job_type.name,
        payload=b'{"a": 1}',
        payload_intact=True,
        priority=5,
        max_retries=5,
        failures=0,
        losses=0,
        created_at=now,
        started_at=now,
        correlation_id=None,
        key=None,
        tenant=None,
        pool="default",
        worker="benchmark",
    )
    return Task(claimed, job_type, now + 60_000, "http://127.0.0.1:5627", Output())
