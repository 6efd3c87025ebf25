"""The one writer: groups, bad company, callers that leave, and a log that stays small."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from jobqueued.model.errors import DiskFull, StoreError, StoreLocked, StoreUnavailable
from jobqueued.model.job import Job, Status
from jobqueued.store.sqlite import writer
from jobqueued.store.sqlite.store import SqliteStore
from jobqueued.store.sqlite.writer import LONGEST_LOG, SHORTEST_LOG, Call, Group
from tests.store.support import (
    DAY,
    NOW,
    beside,
    end,
    lanes_in,
    new_job,
    open_and_close,
    opened,
    put,
    running,
    size_of,
    take,
    until,
)


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


async def submit(store: SqliteStore, job: Job) -> str:
    [placed] = await store.submit([job], batch_id=None, window=DAY)
    return placed.job.id


async def known(path: Path) -> set[str]:
    """The ids a store opened anew has."""
    await open_and_close(path)
    with beside(path) as other:
        return {row[0] for row in other.execute("SELECT id FROM jobs")}


async def test_writes_that_come_together_share_a_commit(sqlite: SqliteStore) -> None:
    before = sqlite.writer.commits
    jobs = [new_job() for _ in range(1000)]
    placed = await asyncio.gather(*(submit(sqlite, job) for job in jobs))
    assert placed == [job.id for job in jobs]
    assert sqlite.writer.commits - before < 20
    assert sqlite.counts.by_status() == {"pending": 1000}


async def test_a_lone_write_does_not_wait_for_company(sqlite: SqliteStore) -> None:
    before = sqlite.writer.commits
    for _ in range(5):
        await put(sqlite)
    assert sqlite.writer.commits - before == 5


@pytest.mark.parametrize("wrong", [{"priority": 99}, {"job_type": None}, {"payload": "text"}])
async def test_one_bad_write_spoils_nobody_else(
    sqlite: SqliteStore, path: Path, wrong: dict[str, Any]
) -> None:
    jobs = [new_job() for _ in range(10)]
    jobs[3] = new_job(**wrong)
    answers = await asyncio.gather(*(submit(sqlite, job) for job in jobs), return_exceptions=True)
    assert isinstance(answers.pop(3), Exception)
    good = [job.id for number, job in enumerate(jobs) if number != 3]
    assert answers == good
    assert sqlite.counts.by_status() == {"pending": 9}
    with beside(path) as other:
        kept, real = lanes_in(other)
    assert kept == real
    assert not sqlite.failed.done()


async def test_an_id_is_used_once(sqlite: SqliteStore) -> None:
    job = new_job()
    await submit(sqlite, job)
    with pytest.raises(StoreError):
        await submit(sqlite, job)
    assert sqlite.counts.by_status() == {"pending": 1}


async def test_a_caller_that_leaves_loses_nothing(sqlite: SqliteStore, path: Path) -> None:
    jobs = [new_job() for _ in range(20)]
    callers = [asyncio.create_task(submit(sqlite, job)) for job in jobs]
    await asyncio.sleep(0)
    for caller in callers[::2]:
        caller.cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, str)] == [
        job.id for job in jobs[1::2]
    ]
    await sqlite.close()
    assert await known(path) >= {job.id for job in jobs[1::2]}


async def test_a_reader_that_leaves_frees_its_connection(sqlite: SqliteStore) -> None:
    job = await put(sqlite)
    for _ in range(10):
        reads = [asyncio.create_task(sqlite.job(job.id)) for _ in range(5)]
        await asyncio.sleep(0)
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
    assert await sqlite.job(job.id) == job


async def test_closing_writes_what_is_queued(sqlite: SqliteStore, path: Path) -> None:
    jobs = [new_job() for _ in range(1500)]
    callers = [asyncio.create_task(submit(sqlite, job)) for job in jobs]
    await asyncio.sleep(0)
    await sqlite.close()
    assert await asyncio.gather(*callers) == [job.id for job in jobs]
    assert await known(path) == {job.id for job in jobs}


async def test_a_closed_store_says_so(sqlite: SqliteStore, path: Path) -> None:
    await sqlite.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await put(sqlite)


async def test_a_closed_store_leaves_one_file_of_jobs(sqlite: SqliteStore, path: Path) -> None:
    await put(sqlite)
    await sqlite.close()
    assert not wal_of(path).exists()


async def test_writes_stay_in_their_order(sqlite: SqliteStore) -> None:
    job = new_job(delay=1)
    found = await asyncio.gather(
        submit(sqlite, job),
        sqlite.run_now(job.id, NOW),
        sqlite.cancel(job.id, NOW),
        sqlite.cancel(job.id, NOW),
    )
    assert list(found) == [job.id, "scheduled", "pending", "cancelled"]


async def test_the_log_stays_small_under_load_with_readers(sqlite: SqliteStore, path: Path) -> None:
    largest = 0

    async def read() -> None:
        nonlocal largest
        while not loaded.done():
            await sqlite.next_lease_expiry()
            largest = max(largest, size_of(path, "-wal"))

    async def load() -> None:
        for _ in range(60):
            jobs = [new_job(payload=b'"%s"' % (b"x" * 8000)) for _ in range(50)]
            await sqlite.submit(jobs, batch_id=None, window=DAY)

    loaded = asyncio.create_task(load())
    await asyncio.gather(loaded, read(), read())
    assert size_of(path) > LONGEST_LOG
    assert largest <= LONGEST_LOG


async def test_a_reader_in_the_way_holds_up_the_checkpoint_and_nothing_else(
    sqlite: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CUT_AGAIN_SECONDS", 0.0)
    big = [new_job(payload=b'"%s"' % (b"x" * 500_000)) for _ in range(60)]
    with beside(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM jobs").fetchall()
        for job in big[:40]:
            await submit(sqlite, job)
        assert size_of(path, "-wal") > LONGEST_LOG
        reader.execute("COMMIT")
    grown = size_of(path, "-wal")
    for job in big[40:]:
        await submit(sqlite, job)
    assert size_of(path, "-wal") < grown / 2
    assert sqlite.counts.by_status() == {"pending": 60}


async def test_another_writer_is_waited_for(sqlite: SqliteStore, path: Path) -> None:
    with beside(path) as other:
        other.execute("BEGIN IMMEDIATE")
        caller = asyncio.create_task(put(sqlite))
        await until(lambda: sqlite.busy_since is not None)
        other.execute("ROLLBACK")
        await caller
    assert sqlite.busy_since is None


async def test_a_file_held_for_long_refuses_and_recovers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueued.store.sqlite.connection.BUSY_TIMEOUT_MS", 50)
    async with opened(path) as store:
        claimed = await running(store)
        with beside(path) as other:
            other.execute("BEGIN IMMEDIATE")
            outcome = asyncio.create_task(end(store, claimed))
            with pytest.raises(StoreLocked):
                await put(store)
            assert not outcome.done()
            other.execute("ROLLBACK")
        assert await outcome == Status.COMPLETED
        assert (await put(store)).status == Status.PENDING


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("used", [True, False])
async def test_a_log_taken_away_stops_the_store(
    sqlite: SqliteStore, path: Path, used: bool, replaced: bool
) -> None:
    """Whatever is written from then on would be gone after a restart."""
    if used:
        await put(sqlite)
    os.unlink(wal_of(path))
    if replaced:
        wal_of(path).write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        await put(sqlite)
    assert sqlite.failed.done()
    assert sqlite.failed.result().exit_code == 74
    with pytest.raises(StoreUnavailable):
        await put(sqlite)


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Makes writes past that size fail, as a broken disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_space_that_comes_back_at_once_was_missing_all_the_same(
    sqlite: SqliteStore,
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    assert isinstance(sqlite.writer.explain(error), StoreUnavailable)
    sqlite.writer.disk_full = True
    assert isinstance(sqlite.writer.explain(error), DiskFull)


async def test_a_disk_error_stops_the_store(sqlite: SqliteStore, path: Path) -> None:
    before = await put(sqlite)
    big = b'"%s"' % (b"x" * 100_000)
    with no_file_longer_than(size_of(path, "-wal") + 50_000):
        failing = [asyncio.create_task(put(sqlite, payload=big)) for _ in range(3)]
        answers = await asyncio.gather(*failing, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    error = sqlite.failed.result()
    assert (type(error), error.exit_code) == (StoreUnavailable, 74)
    with pytest.raises(StoreUnavailable):
        await put(sqlite)
    with pytest.raises(StoreUnavailable):
        await take(sqlite)
    await sqlite.close()
    assert before.id in await known(path)


async def test_what_fails_at_a_checkpoint_stops_the_store(sqlite: SqliteStore, path: Path) -> None:
    payload = b'"%s"' % (b"x" * 200_000)
    answers: list[object] = []
    with no_file_longer_than(LONGEST_LOG + 1_000_000):
        while not sqlite.failed.done() and len(answers) < 200:
            answers += await asyncio.gather(put(sqlite, payload=payload), return_exceptions=True)
    assert sqlite.failed.result().exit_code == 74
    assert len(answers) > LONGEST_LOG / 2 / len(payload)


async def test_what_fails_while_the_log_is_copied_stops_the_store(
    sqlite: SqliteStore, path: Path
) -> None:
    """Only the file itself is too long: no commit would ever have noticed."""
    payload, longest = b'"%s"' % (b"x" * 200_000), SHORTEST_LOG + 1_500_000
    with no_file_longer_than(longest):
        for _ in range(60):
            with suppress(StoreUnavailable):
                await put(sqlite, payload=payload)
    assert sqlite.failed.result().exit_code == 74
    assert size_of(path, "-wal") < longest - 2 * len(payload)


async def test_a_fault_of_the_writer_itself_is_told_to_everybody(
    sqlite: SqliteStore, path: Path
) -> None:
    await sqlite._connection.close()
    with pytest.raises(StoreUnavailable):
        await put(sqlite)
    assert (await sqlite.failed).exit_code == 74


async def test_a_bug_in_one_write_is_its_callers_alone(sqlite: SqliteStore) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    calls = [sqlite.writer.write(fail, essential=True), submit(sqlite, new_job())]
    bad, good = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(bad, ZeroDivisionError)
    assert isinstance(good, str)


async def test_a_file_that_is_held_after_a_bad_write_is_waited_for_once(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each write of a group is tried alone, not all of them wait for it in turn."""
    tried: list[int] = []
    transact = sqlite.writer._transact

    def held_after_the_first(connection: sqlite3.Connection, calls: list[Call]) -> Group:
        tried.append(len(calls))
        if len(tried) == 3:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return transact(connection, calls)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(sqlite.writer, "_transact", held_after_the_first)
    bad = sqlite.writer.write(fail, essential=True)
    others = [asyncio.ensure_future(submit(sqlite, new_job())) for _ in range(5)]
    kept = sqlite.writer.write(lambda tx: "kept", essential=True)
    results = await asyncio.gather(bad, *others, return_exceptions=True)
    assert [type(each) for each in results] == [ZeroDivisionError, *[StoreLocked] * 5]
    assert await kept == "kept"
    assert tried == [7, 1, 1, 1]
    assert not sqlite.locked
