"""Files of every age and state: made, brought up to date, or refused as they are."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jobqueued.model.errors import DamagedDatabase, NewerDatabase, StoreError
from jobqueued.model.ids import place_of
from jobqueued.model.job import Status
from jobqueued.store.sqlite import store as opening
from jobqueued.store.sqlite.connection import APPLICATION_ID, open_writer
from jobqueued.store.sqlite.migrate import check_before_opening, migrate, shipped_migrations
from jobqueued.store.sqlite.offline import check
from tests.store.support import (
    beside,
    end,
    fill_schema_1,
    new_job,
    open_and_close,
    opened,
    put,
    run_python,
    size_of,
    take,
)

NEXT = """
-- A comment; with a semicolon.
ALTER TABLE jobs ADD COLUMN colour TEXT;
CREATE TRIGGER jobs_colour AFTER INSERT ON jobs BEGIN
    UPDATE jobs SET colour = 'red; green' WHERE seq = NEW.seq;
END;
UPDATE jobs SET colour = 'blue';
"""
WRONG = "ALTER TABLE jobs ADD COLUMN shade TEXT;\nINSERT INTO nowhere VALUES (1);\n"


@pytest.fixture
async def filled(path: Path) -> list[str]:
    """A file of this version at rest, and the ids in it."""
    async with opened(path) as store:
        return [(await put(store)).id for _ in range(20)]


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_writer(path, "full")) as connection:
        yield connection


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.schema-{len(shipped_migrations())}.backup")


def pragma(path: Path, name: str) -> int:
    with beside(path) as other:
        return int(other.execute(f"PRAGMA {name}").fetchone()[0])


def ids_in(path: Path) -> list[str]:
    with beside(path) as other:
        return [row[0] for row in other.execute("SELECT id FROM jobs ORDER BY seq")]


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before


def leftovers(path: Path) -> set[str]:
    """What SQLite put beside the file."""
    return set(os.listdir(path.parent)) & {"jobs.db-wal", "jobs.db-shm", "jobs.db-journal"}


async def refused(path: Path, error: type[StoreError], match: str | None = None) -> None:
    """Opening fails with exit code 65 and leaves the file as it was."""
    with untouched(path), pytest.raises(error, match=match) as caught:
        await open_and_close(path)
    assert caught.value.exit_code == 65
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("exists", [False, True])
async def test_a_fresh_file(path: Path, exists: bool) -> None:
    if exists:
        os.close(os.open(path, os.O_CREAT))
    async with opened(path) as store:
        assert store.last_place == 0
        assert store.counts.by_status() == {}
    assert pragma(path, "user_version") == len(shipped_migrations())
    assert pragma(path, "application_id") == APPLICATION_ID
    assert check(path) == []
    assert not backup_of(path).exists()


async def test_a_start_that_was_cut_off_is_made_good(path: Path) -> None:
    open_writer(path, "full").close()
    assert check_before_opening(path, 1) == 0
    async with opened(path) as store:
        await put(store)


async def test_the_file_is_taken_up_where_it_was(path: Path, filled: list[str]) -> None:
    async with opened(path) as store:
        assert store.counts.by_status() == {"pending": 20}
        job = await store.job(filled[-1])
        assert job is not None
        assert store.last_place == place_of(filled[-1])


async def test_a_newer_schema_is_left_alone(path: Path, filled: list[str]) -> None:
    with beside(path) as other:
        other.execute(f"PRAGMA user_version = {len(shipped_migrations()) + 1}")
    await refused(path, NewerDatabase, "install the newer version")
    assert not backup_of(path).exists()


async def test_a_refused_file_gets_no_neighbours(path: Path, filled: list[str]) -> None:
    with beside(path) as other:
        other.execute(f"PRAGMA user_version = {len(shipped_migrations()) + 1}")
    await refused(path, NewerDatabase)
    assert not leftovers(path)


async def test_somebody_elses_database_is_left_alone(path: Path) -> None:
    with beside(path) as other:
        other.execute("CREATE TABLE jobs (x)")
    await refused(path, DamagedDatabase, "not a jobqueued database")


def leave_half_written(path: Path, source: Path) -> None:
    """Somebody else's database as a power cut leaves it: its journal has yet to be rolled back."""
    with beside(source) as other:
        other.execute("PRAGMA cache_size = 1")
        other.execute("CREATE TABLE notes (text)")
        other.execute("BEGIN")
        other.executemany("INSERT INTO notes VALUES (?)", [("x" * 3000,)] * 100)
        for suffix in ("", "-journal"):
            shutil.copy(f"{source}{suffix}", f"{path}{suffix}")
        other.execute("ROLLBACK")


async def test_somebody_elses_half_written_database_is_left_alone(path: Path) -> None:
    leave_half_written(path, path.with_name("source.db"))
    await refused(path, DamagedDatabase)
    assert leftovers(path) == {"jobs.db-journal"}


@pytest.mark.parametrize("text", [b"hello", b"no database at all" * 1000, b"\0" * 8192])
async def test_any_other_file_is_left_alone(path: Path, text: bytes) -> None:
    await asyncio.to_thread(path.write_bytes, text)
    await refused(path, DamagedDatabase)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
async def test_a_file_cut_short_is_refused(path: Path, filled: list[str], share: float) -> None:
    os.truncate(path, int(size_of(path) * share))
    await refused(path, DamagedDatabase)


async def test_a_file_one_page_short_is_refused(path: Path, filled: list[str]) -> None:
    os.truncate(path, size_of(path) - 4096)
    await refused(path, DamagedDatabase)


@pytest.mark.parametrize("place", [0, 16, 18])
async def test_a_damaged_header_is_refused(path: Path, filled: list[str], place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff\xff")
    await refused(path, DamagedDatabase)


async def test_a_damaged_schema_is_refused(path: Path, filled: list[str]) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 200)
    await refused(path, DamagedDatabase)


def test_an_older_schema_is_brought_up_to_date(
    path: Path, filled: list[str], writer: sqlite3.Connection
) -> None:
    scripts = [*shipped_migrations(), NEXT]
    assert migrate(writer, path, scripts) == backup_of(path)
    assert pragma(path, "user_version") == len(scripts)
    colours = writer.execute("SELECT DISTINCT colour FROM jobs").fetchall()
    assert colours == [("blue",)]
    assert migrate(writer, path, scripts) is None


def test_the_old_file_is_kept_whole(
    path: Path, filled: list[str], writer: sqlite3.Connection, tmp_path: Path
) -> None:
    backup_of(path).write_text("left from a start that was cut off")
    migrate(writer, path, [*shipped_migrations(), NEXT])
    assert check(backup_of(path)) == []
    assert ids_in(backup_of(path)) == filled == ids_in(path)
    assert pragma(backup_of(path), "user_version") == len(shipped_migrations())
    assert pragma(backup_of(path), "auto_vacuum") == 2


async def test_the_kept_file_opens_as_a_store(path: Path, filled: list[str]) -> None:
    with closing(open_writer(path, "full")) as writer:
        migrate(writer, path, [*shipped_migrations(), NEXT])
    restored = path.with_name("restored.db")
    shutil.copy(backup_of(path), restored)
    async with opened(restored) as store:
        assert store.counts.by_status() == {"pending": 20}
        await put(store)


def test_what_was_only_in_the_log_is_in_the_backup(path: Path, writer: sqlite3.Connection) -> None:
    migrate(writer, path, shipped_migrations())
    writer.execute("INSERT INTO batches VALUES ('b', 1, 1)")
    migrate(writer, path, [*shipped_migrations(), NEXT])
    with beside(backup_of(path)) as other:
        assert other.execute("SELECT id FROM batches").fetchall() == [("b",)]


def test_a_migration_that_fails_changes_nothing(path: Path, filled: list[str]) -> None:
    with untouched(path), closing(open_writer(path, "full")) as writer:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate(writer, path, [*shipped_migrations(), NEXT, WRONG])
        assert not writer.in_transaction
    assert ids_in(path) == filled


async def test_a_failed_migration_is_told_and_the_old_version_still_opens(
    path: Path, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(opening, "shipped_migrations", lambda: [*shipped_migrations(), WRONG])
        with pytest.raises(StoreError, match="nowhere") as caught:
            await open_and_close(path)
        assert caught.value.exit_code == 74
    async with opened(path) as store:
        assert store.counts.by_status() == {"pending": 20}


async def test_an_upgrade_is_told(
    path: Path,
    filled: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(opening, "shipped_migrations", lambda: [*shipped_migrations(), NEXT])
    with caplog.at_level(logging.WARNING):
        async with opened(path) as store:
            await put(store)
    assert str(backup_of(path)) in caplog.text


def test_a_start_that_fails_ends_the_process(path: Path) -> None:
    path.with_name("jobs.db.reserve").mkdir()
    source = (
        "import asyncio, pathlib, sys\n"
        "from jobqueued.store.sqlite.store import SqliteStore\n"
        "asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1])))\n"
    )
    done = run_python("-c", source, str(path), patience=8)
    assert done.returncode == 1
    assert "IsADirectoryError" in done.stderr
    assert "ResourceWarning" not in done.stderr


async def test_a_log_without_its_database_is_not_taken_for_that_of_a_new_one(path: Path) -> None:
    async with opened(path) as store:
        await put(store)
        log = path.with_name(path.name + "-wal").read_bytes()
    leave_only_a_log(path, log)
    async with opened(path) as store:
        assert store.counts.by_status() == {}
    assert check(path) == []


def leave_only_a_log(path: Path, log: bytes) -> None:
    path.unlink()
    path.with_name(path.name + "-wal").write_bytes(log)


async def test_a_schema_that_is_no_text_is_refused(path: Path, filled: list[str]) -> None:
    with path.open("r+b") as file:
        place = file.read().index(b"CREATE TABLE attempts")
        file.seek(place + len("CREATE TABL"))
        file.write(b"\xe5")
    await refused(path, DamagedDatabase)


CUT_OFF = r"""
import os, pathlib, sqlite3, sys
from jobqueued.store.sqlite.connection import open_writer
from jobqueued.store.sqlite.migrate import migrate, shipped_migrations
path, last = pathlib.Path(sys.argv[1]), sys.argv[2]
writer = open_writer(path, "full")
writer.create_function("cut_off", 0, lambda: os._exit(9))
# Small enough for pages to be in the log before the COMMIT.
writer.execute("PRAGMA cache_size = 1")
first, second = shipped_migrations()[:2]
before, _ = second.split(last, 1)
migrate(writer, path, [first, f"{before}{last}\nSELECT cut_off();\n"])
"""


def declared(path: Path) -> dict[str, str]:
    """The tables as they are on disk."""
    with beside(path) as other:
        rows = other.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        return {name: sql for name, sql in rows if not name.startswith("sqlite_")}


@pytest.mark.parametrize(
    "last",
    ["PRAGMA writable_schema = ON;", "WHERE name = 'jobs';", "PRAGMA writable_schema = RESET;"],
)
async def test_a_start_that_is_cut_off_while_it_migrates_is_made_good(
    path: Path, last: str
) -> None:
    fill_schema_1(path, [new_job() for _ in range(200)])
    before = declared(path)
    assert run_python("-c", CUT_OFF, str(path), last).returncode == 9
    assert (pragma(path, "user_version"), declared(path)) == (1, before)
    async with opened(path) as store:
        assert store.counts.by_status() == {"pending": 200}
        assert len(await take(store, workers=3)) == 3
    assert check(path) == []


async def test_a_file_of_schema_1_becomes_what_a_new_one_is(path: Path) -> None:
    fill_schema_1(path, [new_job()])
    fresh = path.with_name("fresh.db")
    for each in (path, fresh):
        await open_and_close(each)
    assert declared(path) == declared(fresh)
    assert "IN (\n" not in "".join(declared(path).values())
    assert check(path) == []


def test_who_has_the_file_open_meanwhile_sees_the_new_schema(path: Path) -> None:
    fill_schema_1(path, [new_job()])
    with beside(path) as other:
        assert other.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
        with closing(open_writer(path, "full")) as writer:
            migrate(writer, path, shipped_migrations())
            with pytest.raises(sqlite3.OperationalError, match="may not be modified"):
                writer.execute("UPDATE sqlite_schema SET sql = sql")
            assert other.execute("SELECT held_back FROM jobs").fetchall() == [(0,)]
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                other.execute("UPDATE jobs SET status = 'processing'")


async def test_tables_that_are_spelled_otherwise_keep_their_rules(path: Path) -> None:
    """What the migration does not find it leaves as it is; it says the same."""
    fill_schema_1(path, [new_job() for _ in range(3)])
    with beside(path) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("UPDATE sqlite_schema SET sql = replace(sql, ', ''', ',  ''')")
    async with opened(path) as store:
        [claimed, *_] = await take(store, workers=3)
        assert await end(store, claimed) is Status.COMPLETED
    assert check(path) == []
    with beside(path) as other, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        other.execute("UPDATE jobs SET status = 'pending' WHERE status = 'processing'")
