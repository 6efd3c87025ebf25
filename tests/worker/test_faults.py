"""Workers and daemons that are killed under load: nothing lost, nothing settled twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobqueued.client import Client, NewJob
from tests.cli.support import PATIENCE, environment
from tests.worker.support import RemoteServing, until, working

JOBS = 400

PROGRAM = """
import asyncio
from jobqueued.worker import Worker

async def handle(payload):
    await asyncio.sleep(60 if {hangs} and payload % 20 == 7 else 0.02)
    return payload

Worker({url!r}, {{"short": handle}}, concurrency=20).run()
"""


@contextmanager
def worker_process(
    daemon: RemoteServing, *, hangs: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker; where it hangs it does so with one job in twenty."""
    program = [sys.executable, "-c", PROGRAM.format(url=daemon.url, hangs=hangs)]
    with (daemon.place / "worker.log").open("a") as log:
        process = subprocess.Popen(program, env=environment(daemon.place), stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def submit_load(client: Client) -> list[str]:
    return await client.submit_many(NewJob(type="short", payload=one) for one in range(JOBS))


async def completed_more_than(client: Client, count: int) -> None:
    async def are_there() -> bool:
        return int((await client.stats())["counts"]["completed"]) > count

    await until(are_there)


async def check_all(client: Client, ids: list[str]) -> Counter[str | None]:
    """Every job completed once, with its own result; how all the attempts ended."""
    outcomes: Counter[str | None] = Counter()
    for number, job_id in enumerate(ids):
        job = await client.wait(job_id, PATIENCE)
        assert (job.status, job.result) == ("completed", number), job
        ended = [attempt.outcome for attempt in await client.attempts(job_id)]
        assert ended.count("completed") == 1, ended
        assert ended[-1] == "completed", ended
        outcomes.update(ended)
    return outcomes


async def test_a_worker_that_is_killed_loses_nothing(own_daemon: RemoteServing) -> None:
    async with Client(own_daemon.url) as client:
        ids = await submit_load(client)
        with worker_process(own_daemon, hangs=True) as victim:
            await completed_more_than(client, JOBS // 10)
            victim.kill()
            victim.wait(PATIENCE)
        with worker_process(own_daemon):
            outcomes = await check_all(client, ids)
    assert outcomes["completed"] == JOBS
    # What ran, and what had ended and was not reported yet.
    assert 0 < outcomes["lost"] <= 40
    # What was on its way to it when it died is handed back.
    assert 0 <= outcomes["interrupted"] <= 20
    assert set(outcomes) <= {"completed", "lost", "interrupted"}


async def test_a_daemon_that_is_killed_loses_nothing(own_daemon: RemoteServing) -> None:
    async with Client(own_daemon.url) as client:
        ids = await submit_load(client)
        with worker_process(own_daemon) as worker:
            for part in (1, 2):
                await completed_more_than(client, part * JOBS // 4)
                own_daemon.kill()
                await asyncio.to_thread(own_daemon.start)
            outcomes = await check_all(client, ids)
            assert worker.poll() is None
    assert outcomes["completed"] == JOBS
    assert set(outcomes) <= {"completed", "lost"}


async def test_an_outcome_waits_for_the_daemon_to_come_back(own_daemon: RemoteServing) -> None:
    gate = asyncio.Event()

    async def wait(payload: Any) -> str:
        await gate.wait()
        return "kept"

    async with Client(own_daemon.url) as client, working(own_daemon, wait) as worker:
        job = await client.submit("task")
        await until(lambda: worker.running == 1)
        own_daemon.kill()
        gate.set()
        await until(lambda: worker.running == 0)
        await asyncio.to_thread(own_daemon.start)
        job = await client.wait(job.id, PATIENCE)
        assert (job.status, job.result, job.attempt) == ("completed", "kept", 1)


async def test_an_orderly_restart_costs_a_running_job_nothing(own_daemon: RemoteServing) -> None:
    gate = asyncio.Event()

    async def wait(payload: Any) -> str:
        await gate.wait()
        return "kept"

    async with Client(own_daemon.url) as client, working(own_daemon, wait) as worker:
        job = await client.submit("task")
        await until(lambda: worker.running == 1)
        assert await asyncio.to_thread(own_daemon.stop) == 0
        await asyncio.to_thread(own_daemon.start)
        gate.set()
        job = await client.wait(job.id, PATIENCE)
        assert (job.status, job.result, job.attempt) == ("completed", "kept", 1)
        second = await client.submit("task", wait=PATIENCE)
        assert second.status == "completed"
