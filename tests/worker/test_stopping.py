"""How a worker ends: in order, in a hurry, and with handlers that do not listen."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jobqueued.client import BlockingClient, Client
from jobqueued.worker import Worker
from tests.cli.support import PATIENCE, environment
from tests.worker.support import RemoteServing, in_state, until, working


async def test_a_stopped_worker_finishes_what_runs_and_takes_no_more(
    daemon: RemoteServing, client: Client
) -> None:
    gate = asyncio.Event()

    async def wait(payload: Any) -> str:
        await gate.wait()
        return "done"

    async def nobody_asks() -> bool:
        return bool((await client.stats())["remote"]["waiting"] == 0)

    async with working(daemon, wait) as worker:
        first = await client.submit("task")
        await in_state(client, first.id, "processing")
        worker.stop()
        await until(nobody_asks)
        second = await client.submit("task")
        gate.set()
        assert (await client.wait(first.id, PATIENCE)).result == "done"
    assert (await client.get(second.id)).status == "pending"
    await client.cancel(second.id)


async def test_what_does_not_end_in_time_is_handed_back_and_runs_again_at_once(
    daemon: RemoteServing, client: Client
) -> None:
    async def forever(payload: Any) -> None:
        await asyncio.Event().wait()

    async def quick(payload: Any) -> str:
        return "second worker"

    async with working(daemon, forever, drain=0.05):
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
    [attempt] = await client.attempts(job.id)
    assert (attempt.outcome, attempt.error) == ("interrupted", "stopped: the worker was stopped")
    async with working(daemon, quick):
        job = await client.wait(job.id, PATIENCE)
    assert (job.status, job.result, job.attempt) == ("completed", "second worker", 2)
    assert job.failures == 0


async def test_stopping_twice_does_not_wait(daemon: RemoteServing, client: Client) -> None:
    async def forever(payload: Any) -> None:
        await asyncio.Event().wait()

    async with working(daemon, forever, drain=3600) as worker:
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
        worker.stop()
        worker.stop()
    assert (await client.get(job.id)).status in ("retrying", "pending")
    await client.cancel(job.id)


async def test_a_handler_that_ends_well_when_told_to_stop_has_completed(
    daemon: RemoteServing, client: Client
) -> None:
    async def obliging(payload: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "in time"
        return ""

    async with working(daemon, obliging, drain=0.0):
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
    job = await client.get(job.id)
    assert (job.status, job.result) == ("completed", "in time")


async def test_a_thread_that_never_ends_does_not_keep_the_worker(
    daemon: RemoteServing, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueued.worker.worker.GRACE_SECONDS", 0.1)
    release = threading.Event()

    def deaf(payload: Any) -> None:
        release.wait()

    async with working(daemon, deaf, drain=0.0):
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
    assert (await client.get(job.id)).status in ("retrying", "pending")
    release.set()
    await client.cancel(job.id)


async def test_a_cancelled_serve_lets_go(daemon: RemoteServing, client: Client) -> None:
    async def forever(payload: Any) -> None:
        await asyncio.Event().wait()

    serving = asyncio.create_task(Worker(daemon.url, {"short": forever}).serve())
    job = await client.submit("short")
    await in_state(client, job.id, "processing")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await client.cancel(job.id)


async def test_a_stop_loses_no_job_that_is_on_its_way(
    daemon: RemoteServing, client: Client
) -> None:
    ran: set[str] = set()

    async def note(payload: Any) -> None:
        ran.add(payload)

    ids = []
    for number in range(20):
        async with working(daemon, note, kind="short") as worker:
            submitting = asyncio.create_task(client.submit("short", f"job {number}"))
            await asyncio.sleep(number / 5000)
            worker.stop()
            ids.append((await submitting).id)
    jobs = [await in_state(client, job_id, "completed", "pending") for job_id in ids]
    assert {job.failures for job in jobs} == {0}
    async with working(daemon, note, kind="short"):
        assert {(await client.wait(one, PATIENCE)).status for one in ids} == {"completed"}


PROGRAM = """
from jobqueued.worker import Worker

def handle(payload):
    return payload

Worker({url!r}, {{"task": handle}}).run()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_well(
    daemon: RemoteServing, number: signal.Signals, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", PROGRAM.format(url=daemon.url)]
    process = subprocess.Popen(program, env=environment(tmp_path))
    try:
        job = BlockingClient(daemon.url).submit("task", 5, wait=PATIENCE)
        assert job.result == 5
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
