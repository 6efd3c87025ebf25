"""Workers and daemons that are stopped for longer than a lease: no job runs twice at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from jobqueued.client import Client, Job, NewJob
from tests.cli.support import PATIENCE, environment
from tests.worker.support import RemoteServing, in_state, until

LEASE = 5.0
PROGRAM = """
import asyncio, time
from pathlib import Path
from jobqueued.worker import Worker

def note(word, job):
    with Path({notes!r}).open("a") as notes:
        notes.write(f"{{word}} {{job.id}} {{job.attempt}} {{time.monotonic()}}\\n")

async def handle(seconds, job):
    note("start", job)
    try:
        await asyncio.sleep(seconds)
    finally:
        note("end", job)

Worker({url!r}, {{"short": handle}}, concurrency=4).run()
"""


class Execution(NamedTuple):
    """One attempt as its handler saw it."""

    started: float
    attempt: int
    ended: float


@contextmanager
def worker_process(daemon: RemoteServing) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that notes when its handlers begin and end."""
    program = PROGRAM.format(url=daemon.url, notes=str(notes_of(daemon)))
    notes_of(daemon).touch()
    with (daemon.place / "worker.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program], env=environment(daemon.place), stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def notes_of(daemon: RemoteServing) -> Path:
    return daemon.place / "notes"


def executions(daemon: RemoteServing, job_id: str) -> list[Execution]:
    """Those that have ended, in the order of their starts."""
    moments: dict[tuple[str, str], float] = {}
    for line in notes_of(daemon).read_text().splitlines():
        word, noted, attempt, moment = line.split()
        if noted == job_id:
            moments[word, attempt] = float(moment)
    return sorted(
        Execution(moment, int(attempt), moments["end", attempt])
        for (word, attempt), moment in moments.items()
        if word == "start"
    )


def assert_alone(daemon: RemoteServing, job_id: str) -> list[Execution]:
    """No execution of the job began before the one before it had ended."""
    found = executions(daemon, job_id)
    for earlier, later in pairwise(found):
        assert earlier.ended <= later.started, found
    return found


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end."""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


async def asks(client: Client) -> bool:
    """Whether a worker waits for jobs."""
    return bool((await client.stats())["remote"]["waiting"])


async def submit(client: Client, count: int, seconds: float) -> list[str]:
    return await client.submit_many(NewJob(type="short", payload=seconds) for _ in range(count))


async def all_done(client: Client, ids: list[str]) -> list[Job]:
    jobs = [await client.wait(job_id, PATIENCE) for job_id in ids]
    assert {job.status for job in jobs} == {"completed"}
    return jobs


async def test_what_came_while_a_worker_was_stopped_is_not_begun_when_it_is_too_late(
    own_daemon: RemoteServing,
) -> None:
    async with Client(own_daemon.url) as client:
        with worker_process(own_daemon) as worker:
            await until(lambda: asks(client))
            with stopped(worker):
                ids = await submit(client, 3, 1.0)
                for job_id in ids:
                    await in_state(client, job_id, "processing")
                for job_id in ids:
                    await in_state(client, job_id, "pending")
            for job in await all_done(client, ids):
                found = assert_alone(own_daemon, job.id)
                assert [one.attempt for one in found] == [2]
                first, _ = await client.attempts(job.id)
                assert first.outcome == "lost"


async def test_a_daemon_that_was_stopped_takes_no_job_from_a_worker_that_lives(
    own_daemon: RemoteServing,
) -> None:
    async with Client(own_daemon.url) as client:
        with worker_process(own_daemon):
            ids = await submit(client, 3, 7.0)
            for job_id in ids:
                await in_state(client, job_id, "processing")
            with stopped(own_daemon.process):
                # The one thing to wait for is that the leases run out.
                await asyncio.sleep(1.2 * LEASE)
            for job in await all_done(client, ids):
                assert len(assert_alone(own_daemon, job.id)) == 1
                [attempt] = await client.attempts(job.id)
                assert attempt.outcome == "completed"


async def test_what_runs_is_stopped_as_soon_as_a_worker_that_was_stopped_goes_on(
    own_daemon: RemoteServing,
) -> None:
    async with Client(own_daemon.url) as client:
        with worker_process(own_daemon) as worker:
            [job_id] = await submit(client, 1, 3600.0)
            await until(lambda: f"start {job_id} 1 " in notes_of(own_daemon).read_text())
            with stopped(worker):
                await in_state(client, job_id, "pending")
            await until(lambda: f"end {job_id} 1 " in notes_of(own_daemon).read_text())
            [first, *_] = await client.attempts(job_id)
            assert first.outcome == "lost"
            assert (first.error or "").startswith("the lease ran out: no sign of life for ")
