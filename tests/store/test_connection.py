"""How the file is opened, and that it gives back what it does not need."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobqueued.model.errors import DamagedDatabase, StoreError, StoreUnavailable
from jobqueued.model.job import Job
from jobqueued.store.interface import Retained
from jobqueued.store.sqlite.connection import APPLICATION_ID, open_reader, open_writer
from jobqueued.store.sqlite.retention import KEPT_PAGES
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import (
    DAY,
    NOW,
    beside,
    new_job,
    open_and_close,
    opened,
    put,
    remove,
    size_of,
)

NONE = Retained({"cancelled": 0}, idempotency_window=0)


def pragmas(connection: sqlite3.Connection) -> dict[str, object]:
    names = ("journal_mode", "synchronous", "query_only", "wal_autocheckpoint", "auto_vacuum",
             "mmap_size", "application_id", "busy_timeout")  # fmt: skip
    found = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in names}
    return {name: row[0] for name, row in found.items() if row}


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
async def test_how_the_writer_is_set(path: Path, durability: str, synchronous: int) -> None:
    async with opened(path, durability) as store:
        found = await store._connection.run(pragmas)
        assert store.figures()["durability"] == durability
    assert found == {
        "journal_mode": "wal",
        "synchronous": synchronous,
        "query_only": 0,
        "wal_autocheckpoint": 0,
        "auto_vacuum": 2,
        "mmap_size": 0,
        "application_id": APPLICATION_ID,
        "busy_timeout": 10_000,
    }


async def test_how_the_readers_are_set(sqlite: SqliteStore) -> None:
    for _ in range(3):
        found = await sqlite._readers.run(pragmas)
        assert (found["journal_mode"], found["query_only"], found["mmap_size"]) == ("wal", 1, 0)


async def test_a_reader_cannot_write(sqlite: SqliteStore) -> None:
    with pytest.raises(StoreError, match="readonly"):
        await sqlite._read(lambda connection: connection.execute("DELETE FROM jobs"))


def test_a_reader_makes_no_file(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        open_reader(path)
    assert not path.exists()


async def test_a_file_name_may_have_anything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs ?x=1&mode=ro#%41.db"
    async with opened(path) as store:
        await put(store)
    assert size_of(path) > 0


async def test_a_file_system_that_does_not_let_us_write_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await open_and_close(tmp_path / "missing" / "jobs.db")
    assert caught.value.exit_code == 74


async def test_a_damaged_page_is_told_as_damage(path: Path) -> None:
    async with opened(path) as store:
        job = await put(store)
    with closing(open_writer(path, "full")) as writer:
        root = writer.execute("SELECT rootpage FROM sqlite_master WHERE name = 'payloads'")
        page = int(root.fetchone()[0])
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    async with opened(path) as store:
        with pytest.raises(DamagedDatabase, match="restore a backup"):
            await store.job(job.id)
        with pytest.raises((DamagedDatabase, StoreUnavailable)):
            await put(store)
        assert store.failed.result().exit_code == 65


def big_jobs(count: int) -> list[Job]:
    return [new_job(payload=b'"%s"' % (b"x" * 60_000)) for _ in range(count)]


async def forget(store: SqliteStore, jobs: list[Job]) -> None:
    for job in jobs:
        await store.cancel(job.id, NOW)
    while await remove(store, NONE, NOW):
        pass


async def test_space_is_given_back(path: Path) -> None:
    async with opened(path) as store:
        jobs = big_jobs(300)
        await store.submit(jobs, batch_id=None, window=DAY)
        await forget(store, jobs)
        while (await store.give_back_space(0.001)).number:
            pass
    with beside(path) as other:
        spare = other.execute("PRAGMA freelist_count").fetchone()[0]
    assert spare <= KEPT_PAGES
    assert size_of(path) < (KEPT_PAGES + 100) * 4096


async def test_a_little_space_is_kept_for_the_next_jobs(path: Path) -> None:
    async with opened(path) as store:
        jobs = big_jobs(10)
        await store.submit(jobs, batch_id=None, window=DAY)
        await forget(store, jobs)
        assert (await store.give_back_space(1.0)).number == 0
    assert size_of(path) > 10 * 60_000


async def test_the_figures_tell_sizes_and_commits(sqlite: SqliteStore, path: Path) -> None:
    await put(sqlite)
    assert sqlite.figures() == {
        "bytes": size_of(path),
        "wal_bytes": size_of(path, "-wal"),
        "durability": "full",
        "commits": 1,
    }
