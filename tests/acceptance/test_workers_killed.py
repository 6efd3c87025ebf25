"""kill -9 of a Python child, of a remote worker and of the daemon, under load."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from jobqueued.client import Client, Job, NewJob
from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, environment
from tests.api.support import PATIENCE
from tests.worker.support import until

CONFIG = """
[pools.default]
workers = 4
[defaults]
lease = "5s"
max_retries = 20
backoff = { base = "50ms", factor = 1.0, jitter = "50ms" }
[types.local]
python = "application:note_slowly"
python_path = ["{root}/tests/acceptance/handlers"]
env = { NOTES = "{place}/notes" }
[types.away]
remote = true
"""
WORKER = """
import asyncio, sys
from application import note
from jobqueued.worker import Worker

async def handle(payload, context):
    await asyncio.sleep(0.02)
    return note(payload, context)

Worker(sys.argv[1], {"away": handle}, concurrency=25).run()
"""
JOBS = 400
"""Of each kind."""


class Load:
    """A daemon with jobs of both kinds, and workers for those that it does not run itself."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.url = f"unix:{serving.socket_path}"
        self.client = Client(self.url)
        self.ids: list[str] = []

    async def submit(self) -> None:
        kinds = (("local", "away")[number % 2] for number in range(2 * JOBS))
        jobs = (NewJob(type=kind, payload=number) for number, kind in enumerate(kinds))
        self.ids = await self.client.submit_many(jobs)

    async def completed(self) -> int:
        counts: dict[str, int] = (await self.client.stats())["counts"]
        return counts["completed"]

    async def until_completed(self, count: int) -> None:
        async def enough() -> bool:
            return await self.completed() >= count

        await until(enough)

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A program that takes jobs in batches, in a process of its own."""
        folder = Path(__file__).parent / "handlers"
        home = self.serving.place
        surroundings = environment(home) | {"NOTES": f"{home}/notes"}
        surroundings["PYTHONPATH"] += f":{folder}"
        with (home / "worker.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", WORKER, self.url], env=surroundings, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def children(self) -> list[int]:
        """The processes in which Python handlers run."""
        return [pid for pid in self.serving.processes() if _is_child(pid)]


def _is_child(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"application:note_slowly" in words


@pytest.fixture
async def load(prepare: Serve) -> AsyncIterator[Load]:
    serving = prepare(CONFIG)
    await asyncio.to_thread(serving.start)
    load = Load(serving)
    yield load
    await load.client.close()


async def test_whoever_is_killed_nothing_is_lost_or_ended_twice(load: Load) -> None:
    chance = random.Random(3)
    with ExitStack() as workers:
        victim = workers.enter_context(load.worker())
        workers.enter_context(load.worker())
        await load.submit()
        for part in range(1, 5):
            await load.until_completed(part * JOBS // 3)
            for pid in chance.sample(load.children(), 2):
                os.kill(pid, signal.SIGKILL)
            if part == 2:
                victim.kill()
                workers.enter_context(load.worker())
            if part == 3:
                load.serving.kill()
                await asyncio.to_thread(load.serving.start)
        await check_everything(load)


async def check_everything(load: Load) -> None:
    """Each job completed once, with its own result, and every attempt has one outcome."""
    jobs = [await load.client.wait(job_id, PATIENCE) for job_id in load.ids]
    assert [(job.status, job.result) for job in jobs] == [
        ("completed", number) for number in range(2 * JOBS)
    ]
    ended = Counter[str | None]()
    for job in jobs:
        ended += await outcomes(load.client, job)
    assert {"crashed", "lost"} < set(ended) <= {"completed", "crashed", "lost", "interrupted"}
    assert ended["completed"] == len(jobs) == await load.completed()
    print(f"attempts: {dict(ended)}")
    notes = (load.serving.place / "notes").read_text().splitlines()
    started = Counter(notes)
    assert set(started.values()) == {1}, "an attempt was started twice"
    assert len(started) <= ended.total()
    assert {note.split()[0] for note in notes} == {job.id for job in jobs}


async def outcomes(client: Client, job: Job) -> Counter[str | None]:
    attempts = await client.attempts(job.id)
    assert [one.number for one in attempts] == list(range(1, job.attempt + 1))
    assert [one.outcome for one in attempts].count("completed") == 1
    assert attempts[-1].outcome == "completed"
    return Counter(one.outcome for one in attempts)


async def test_a_submission_of_many_outlives_restarts(load: Load) -> None:
    """Two killings in the middle, and one stop in good order."""
    total = 25_000
    submitting = asyncio.create_task(
        load.client.submit_many(
            NewJob(type="away", payload=number, delay=3600) for number in range(total)
        )
    )
    for part, end in enumerate((load.serving.kill, load.serving.stop, load.serving.kill), 1):
        await until(partial(stored, load, part * total // 5))
        await asyncio.to_thread(end)
        await asyncio.to_thread(load.serving.start)
    ids = await submitting
    assert len(set(ids)) == total
    counts = (await load.client.stats())["counts"]
    assert {status: count for status, count in counts.items() if count} == {"scheduled": total}
    for number in range(0, total, 1000):
        assert (await load.client.get(ids[number])).payload == number


async def stored(load: Load, count: int) -> bool:
    waiting: int = (await load.client.stats())["counts"]["scheduled"]
    return waiting >= count
