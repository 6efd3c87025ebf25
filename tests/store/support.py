"""Jobs to put into a store, short ways to move them, and a look at the file from outside."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from jobqueued.model.control import Room
from jobqueued.model.ids import IdMaker, place_of
from jobqueued.model.job import Claimed, Job, Status, first_status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import Next
from jobqueued.store.interface import Ask, KeyQueue, Retained, Settlement, Store
from jobqueued.store.sqlite.migrate import shipped_migrations
from jobqueued.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000_000
SECOND = 1_000
HOUR = 3_600_000
DAY = 24 * HOUR
PATIENCE = 20.0
"""Seconds within which everything these tests wait for has happened."""

Opener = Callable[[], Awaitable[Store]]
Lanes = dict[tuple[str, str, int], int]

ids = IdMaker()
"""Made anew for every test, so that an id never runs ahead of its job's time."""

KINDS = {
    Status.COMPLETED: OutcomeKind.COMPLETED,
    Status.CANCELLED: OutcomeKind.CANCELLED,
    Status.PENDING: OutcomeKind.INTERRUPTED,
    Status.RETRYING: OutcomeKind.FAILED,
    Status.DEAD: OutcomeKind.FATAL,
}
"""An outcome that leads to each state an attempt can end in."""


def new_job(job_type: str = "mail", *, now: int = NOW, delay: int = 0, **fields: Any) -> Job:
    """A job made at `now` that may run `delay` milliseconds later."""
    values: dict[str, Any] = {"payload": b"{}", "priority": 5, "max_retries": 3} | fields
    run_at = now + delay
    return Job(
        id=ids.make(now),
        type=job_type,
        status=first_status(now, run_at),
        created_at=now,
        run_at=run_at,
        **values,
    )


async def put(store: Store, job_type: str = "mail", *, window: int = DAY, **fields: Any) -> Job:
    """Submit one job; what the store has of it."""
    [submitted] = await store.submit([new_job(job_type, **fields)], batch_id=None, window=window)
    return submitted.job


def asking(
    *job_types: str, workers: int = 1, room: int = 100, turn: int = 0, lease: int = HOUR
) -> Ask:
    """A pool with idle workers and as much room for each type."""
    names = [f"w{number}" for number in range(workers)]
    return Ask("default", names, {name: Room(room, lease) for name in job_types}, turn)


async def take(
    store: Store, *job_types: str, now: int = NOW, workers: int = 1, **wish: int
) -> list[Claimed]:
    """Claim for one pool."""
    return await store.claim([asking(*(job_types or ("mail",)), workers=workers, **wish)], now)


async def running(store: Store, job_type: str = "mail", **fields: Any) -> Claimed:
    """A job that was submitted and claimed just now."""
    await put(store, job_type, **fields)
    [claimed] = await take(store, job_type, now=fields.get("now", NOW))
    return claimed


def ending(
    claimed: Claimed, status: Status = Status.COMPLETED, *, at: int = NOW, **outcome: Any
) -> Settlement:
    """The end of an attempt that leads to `status`; a retry waits a minute."""
    failed = status in (Status.RETRYING, Status.DEAD)
    run_at = {Status.RETRYING: at + 60 * SECOND, Status.PENDING: at}.get(status)
    following = Next(status, run_at, claimed.failures + failed, claimed.losses)
    return Settlement(claimed.lease, Outcome(**{"kind": KINDS[status]} | outcome), following, at)


async def end(store: Store, claimed: Claimed, *rest: Status, **fields: Any) -> Status | None:
    """Settle one attempt; the status the job has now, None for a lost lease."""
    [status] = await store.settle([ending(claimed, *rest, **fields)])
    return status


async def finished(
    store: Store, *rest: Status, outcome: dict[str, Any] | None = None, **fields: Any
) -> str:
    """The id of a job that has run and ended."""
    claimed = await running(store, **fields)
    assert await end(store, claimed, *rest, **(outcome or {}))
    return claimed.lease.job_id


async def key_queue(store: Store, job_id: str) -> KeyQueue | None:
    """Whom of its key a job waits for."""
    standing = await store.standing(job_id, [], NOW)
    return None if standing is None else standing.key_queue


async def remove(store: Store, retained: Retained, now: int, most: int = 500) -> int:
    """Delete at most so many jobs that are past their retention; how many did go."""
    return (await store.remove_outlived(retained, now, most)).number


async def status_of(store: Store, job_id: str) -> Status:
    job = await store.job(job_id)
    assert job is not None
    return job.status


@asynccontextmanager
async def opened(path: Path, durability: str = "full") -> AsyncIterator[SqliteStore]:
    """A SQLite store that is closed whatever happens."""
    store = await SqliteStore.open(path, durability)
    try:
        yield store
    finally:
        await store.close()


async def open_and_close(path: Path) -> None:
    async with opened(path):
        pass


@contextmanager
def beside(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection to the same file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def size_of(path: Path, suffix: str = "") -> int:
    """Bytes of the database, or of the file beside it with that suffix."""
    return path.with_name(path.name + suffix).stat().st_size


def lanes_in(connection: sqlite3.Connection) -> tuple[Lanes, Lanes]:
    """What the counts table says, and what the jobs are."""
    kept = "SELECT type, status, priority, n FROM counts WHERE n > 0"
    real = "SELECT type, status, priority, count(*) FROM jobs GROUP BY type, status, priority"
    first, second = (
        {row[:3]: row[3] for row in connection.execute(query)} for query in (kept, real)
    )
    return first, second


async def until(happened: Callable[[], object]) -> None:
    """Look again and again until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def run_python(
    *arguments: str, wrapper: tuple[str, ...] = (), patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run Python on the project in a process of its own."""
    return subprocess.run(
        [*wrapper, sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


def fill_schema_1(path: Path, jobs: Sequence[Job]) -> None:
    """A file as the version before the present one left it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.executescript(shipped_migrations()[0])
        old.execute("PRAGMA user_version = 1")
        old.execute("PRAGMA application_id = 0x4A6F6251")
        for job in jobs:
            dead = job.status is Status.DEAD
            values = (
                place_of(job.id), job.id, job.type, job.status, job.priority, job.max_retries,
                NOW, NOW, job.key, int(dead), NOW if dead else None, NOW if dead else None,
            )  # fmt: skip
            old.execute(
                "INSERT INTO jobs (seq, id, type, status, priority, max_retries, created_at,"
                " run_at, key, attempt, started_at, finished_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            payload = (values[0], job.payload, crc32(job.payload))
            old.execute("INSERT INTO payloads VALUES (?, ?, ?)", payload)
            old.execute(
                "INSERT INTO counts VALUES (?, ?, ?, 1)"
                " ON CONFLICT (type, status, priority) DO UPDATE SET n = n + 1",
                (job.type, job.status, job.priority),
            )
