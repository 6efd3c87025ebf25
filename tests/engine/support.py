"""An engine over a real store, to be taken through its rounds by hand or let run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jobqueued import clock
from jobqueued.config import Config, load_config
from jobqueued.engine.running import Running
from jobqueued.engine.service import Engine
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.control import Room
from jobqueued.model.job import Claimed, Job, Status
from jobqueued.model.submission import Submission
from jobqueued.store.interface import Ask

PATIENCE = 15.0
"""Seconds within which everything these tests wait for has happened."""

CONFIG = """
[server]
listen = ["unix:api.sock"]
[store]
path = "jobs.db"
[queue]
max_depth = 20
idempotency_window = "1h"
[retention]
completed = "10m"
dead = "20m"
cancelled = "30m"
[pools.default]
workers = 4
[pools.narrow]
workers = 1
[defaults]
max_retries = 2
backoff = {{ base = "10s", factor = 2.0, max = "30s", jitter = "5s" }}
lease = "10s"
kill_grace = "100ms"
env = {{ GATE = "{place}/gate" }}

[types.quick]
command = ["true"]
[types.other]
command = ["true"]
[types.alone]
command = ["true"]
pool = "narrow"
[types.gate]
command = ["sh", "-c", "echo begun; read word < $GATE; echo $word"]
[types.again]
command = ["sh", "-c", "echo attempt $JOB_ATTEMPT; exit 1"]
backoff = {{ base = "0s", jitter = "0s" }}
[types.later]
command = ["false"]
backoff = {{ base = "1h", jitter = "0s" }}
[types.away]
remote = true
timeout = "25s"
[types.few]
remote = true
max_running = 3
[types.stubborn]
command = ["sh", "-c", "trap '' TERM; echo begun; while :; do read word < $GATE; done"]
timeout = "300ms"
kill_grace = "500ms"
"""


def without(config: Config, kind: str) -> Config:
    """The same configuration with one type less."""
    types = {name: job_type for name, job_type in config.types.items() if name != kind}
    return msgspec.structs.replace(config, types=types)


def read_config(place: Path) -> Config:
    path = place / "jobqueued.toml"
    path.write_text(CONFIG.format(place=place))
    return load_config(path)


class Gate:
    """Where jobs of the type `gate` wait for a word."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for both, so that neither side waits for the other, nor is the word lost.
        self._descriptor = os.open(path, os.O_RDWR)

    def open(self, word: str = "go") -> None:
        """Let one job go on."""
        os.write(self._descriptor, f"{word}\n".encode())

    def close(self) -> None:
        os.close(self._descriptor)


class HandClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.now = clock.now()
        self._elapsed = clock.monotonic()

    def __call__(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds
        self._elapsed += milliseconds / 1000

    def set(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back."""
        self.now += milliseconds


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def settle_down() -> None:
    """Let everything that can go on without waiting go on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def submit(engine: Engine, kind: str = "quick", **fields: object) -> Job:
    submission = Submission(type=kind, **fields)  # type: ignore[arg-type]
    return (await engine.submit(submission)).job


async def dispatch(engine: Engine) -> None:
    """Start what can be started; come back when it has."""
    await engine.shared.dispatcher.run_once()
    await engine.shared.dispatcher.wait_for_claims()


async def claim_for(engine: Engine, workers: Sequence[str], pool: str = "default") -> list[Claimed]:
    """Claim pending jobs of any type for these workers, but start nothing."""
    found = {
        name: Room(1000, job_type.lease)
        for name, job_type in engine.config.types.items()
        if job_type.pool == pool
    }
    return await engine.store.claim([Ask(pool, workers, found, 0)], clock.now())


async def claim(engine: Engine, count: int = 1, pool: str = "default") -> list[Claimed]:
    """Claim so many jobs, but start nothing."""
    return await claim_for(engine, [f"{pool}-{number + 1}" for number in range(count)], pool)


async def claim_new(engine: Engine, kind: str = "quick", **fields: object) -> Claimed:
    """Submit a job and claim it."""
    await submit(engine, kind, **fields)
    (claimed,) = await claim(engine, pool=engine.config.types[kind].pool)
    return claimed


def take_up(engine: Engine, claimed: Claimed) -> Running:
    """Have a claimed job count as running in this process."""
    job_type = engine.config.types[claimed.type]
    deadline = claimed.started_at + job_type.timeout
    task = Task(claimed, job_type, deadline, "", Output())
    running = Running(task, claimed.started_at + job_type.lease)
    engine.shared.running.add(running)
    return running


async def wait_for(engine: Engine, job_id: str, *statuses: Status) -> Job:
    """The job once it is in one of these states."""
    async with asyncio.timeout(PATIENCE):
        while (job := await engine.job(job_id)).status not in statuses:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return job


async def started(engine: Engine, job_id: str) -> Running:
    """The attempt of a job once it runs here, which is a moment after the disk says so."""
    await until(lambda: engine.shared.running.by_job(job_id))
    running = engine.shared.running.by_job(job_id)
    assert running is not None
    return running
