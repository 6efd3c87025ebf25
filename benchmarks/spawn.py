"""`/bin/true` attempts a second through the command executor, against a bare posix_spawn loop.

Usage: python benchmarks/spawn.py [JOBS]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobqueued import clock
from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed, Lease
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.model.outcome import OutcomeKind

CONCURRENT = 10
ROUNDS = 3


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


def main() -> None:
    """Print both rates and their ratio, the best of three rounds each."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    bare_rates, rates = [], []
    for _ in range(ROUNDS):
        bare_rates.append(bare(count))
        rates.append(uvloop.run(executor(count)))
    limited = uvloop.run(executor(count, memory=512 * 1024 * 1024))
    print(f"bare posix_spawn loop        {max(bare_rates):7.0f} processes/s")
    print(f"executor, 10 at a time       {max(rates):7.0f} attempts/s")
    print(f"executor with a memory limit {limited:7.0f} attempts/s")
    print(f"ratio                        {max(rates) / max(bare_rates):7.0%}")


if __name__ == "__main__":
    main()
