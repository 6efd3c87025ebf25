"""The database read, copied and checked without a daemon and beside a writer."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from jobqueued import clock
from jobqueued.model.errors import DamagedDatabase, NewerDatabase, StoreUnavailable
from jobqueued.model.ids import IdMaker, place_of
from jobqueued.model.job import Lease, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import Next
from jobqueued.store.interface import Settlement
from jobqueued.store.sqlite.connection import open_writer
from jobqueued.store.sqlite.counts import JobCounts, Transaction
from jobqueued.store.sqlite.leases import ending, settle
from jobqueued.store.sqlite.migrate import migrate, shipped_migrations
from jobqueued.store.sqlite.offline import backup, check, read_job, read_status
from jobqueued.store.sqlite.queries import SQL

MOMENT = 1_700_000_000_000
BIG = b'{"n":1.10,"big":123456789012345678901234567890}'
ids = IdMaker()


def put(writer: sqlite3.Connection, status: str = "pending", payload: bytes = b"null") -> str:
    """A job of type greet and priority 5, counted."""
    job_id = ids.make(MOMENT)
    seq = place_of(job_id)
    labels = (None,) * 8
    row = (seq, job_id, "greet", "pending", 5, 3, MOMENT, MOMENT, *labels)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute(SQL["insert_job"], row)
    writer.execute(SQL["insert_payload"], (seq, payload, zlib.crc32(payload)))
    if status != "pending":
        writer.execute(SQL["claim"], (seq, MOMENT, "w1", "daemon", "x", MOMENT + 1)).fetchall()
    if status == "dead":
        following = Next(Status.DEAD, None, 1, 0)
        outcome = Outcome(
            kind=OutcomeKind.FAILED, error="no", exit_code=1, result=BIG, max_rss_bytes=4096,
            cpu_ms=7,
        )  # fmt: skip
        lease = Lease(job_id, 1, f"{job_id}.1.x")
        transaction = Transaction(writer, JobCounts({}))
        settle(transaction, [ending(Settlement(lease, outcome, following, MOMENT + 250))])
    writer.execute(SQL["add_count"], ("greet", status, 5, 1))
    writer.execute("COMMIT")
    return job_id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_writer(path, "full")) as connection:
        migrate(connection, path, shipped_migrations())
        yield connection


def names(path: Path) -> set[str]:
    return set(os.listdir(path.parent))


def test_status_counts_what_the_file_has(path: Path, writer: sqlite3.Connection) -> None:
    for status in ("pending", "pending", "processing", "dead"):
        put(writer, status)
    found = read_status(path)
    counts = {"pending": 2, "processing": 1, "dead": 1}
    assert found["counts"] == counts
    assert found["types"] == {"greet": {"counts": counts}}
    assert (found["ready"], found["dlq_depth"]) == (False, 1)
    age = found["oldest_pending_seconds"]
    assert isinstance(age, float)
    assert age == pytest.approx((clock.now() - MOMENT) / 1000, abs=30)
    wal = path.with_name("jobs.db-wal").stat().st_size
    assert wal > 0
    assert found["store"] == {"bytes": path.stat().st_size, "wal_bytes": wal}
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_status_tells_what_holds_types(path: Path, writer: sqlite3.Connection) -> None:
    put(writer, "pending")
    insert = "INSERT INTO controls VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    writer.execute(insert, ("gone", 1, "user ada", None, 1, 2, "all failed", None))
    writer.execute(insert, ("greet", None, None, None, None, None, None, "1/3"))
    assert read_status(path)["types"] == {
        "greet": {"counts": {"pending": 1}},
        "gone": {"counts": {}, "paused": True, "breaker": "open"},
    }


def test_a_file_that_waits_for_its_migration_is_read_as_it_is(path: Path) -> None:
    with closing(open_writer(path, "full")) as connection:
        migrate(connection, path, shipped_migrations()[:1])
        put(connection, "pending")
        assert read_status(path)["types"] == {"greet": {"counts": {"pending": 1}}}


def test_an_empty_queue_has_no_oldest_job(path: Path, writer: sqlite3.Connection) -> None:
    found = read_status(path)
    assert (found["counts"], found["oldest_pending_seconds"]) == ({}, None)


def test_a_job_comes_with_its_attempts_and_every_digit(
    path: Path, writer: sqlite3.Connection
) -> None:
    job = read_job(path, put(writer, "dead", BIG))
    assert job is not None
    assert b'"payload":' + BIG in msgspec.json.encode(job)
    assert b'"result":' + BIG in msgspec.json.encode(job)
    assert job["created_at"] == "2023-11-14T22:13:20.000Z"
    assert (job["status"], job["progress"], job["lease_expires_at"]) == ("dead", None, None)
    assert job["attempts"] == [
        {
            "number": 1,
            "worker": "w1",
            "started_at": "2023-11-14T22:13:20.000Z",
            "finished_at": "2023-11-14T22:13:20.250Z",
            "outcome": "failed",
            "error": "no",
            "exit_code": 1,
            "http_status": None,
            "max_rss_bytes": 4096,
            "cpu_ms": 7,
            "duration_ms": 250,
        }
    ]


def test_an_attempt_under_way_has_no_outcome(path: Path, writer: sqlite3.Connection) -> None:
    job_id = put(writer, "processing")
    writer.execute("UPDATE jobs SET progress_percent = 50, progress_message = 'half'")
    job = read_job(path, job_id)
    assert job is not None
    assert job["progress"] == {"percent": 50.0, "message": "half"}
    attempts = job["attempts"]
    assert isinstance(attempts, list)
    assert [(each["number"], each["outcome"]) for each in attempts] == [(1, None)]
    finished = read_job(path, put(writer, "dead"))
    assert finished is not None
    assert isinstance(finished["attempts"], list)
    assert attempts[0].keys() == finished["attempts"][0].keys()


def test_unknown_ids_have_no_job(path: Path, writer: sqlite3.Connection) -> None:
    job_id = put(writer)
    other = job_id[:-1] + ("0" if job_id[-1] != "0" else "1")
    assert read_job(path, "other") is None
    assert read_job(path, other) is None


def test_damaged_json_is_said_to_be(path: Path, writer: sqlite3.Connection) -> None:
    job_id = put(writer, payload=b'{"n":')
    with pytest.raises(DamagedDatabase, match=job_id):
        read_job(path, job_id)


def test_reading_leaves_nothing_behind(path: Path, writer: sqlite3.Connection) -> None:
    job_id = put(writer)
    writer.close()
    before = path.stat()
    assert read_job(path, job_id) is not None
    assert read_status(path)["counts"] == {"pending": 1}
    assert check(path) == []
    assert names(path) == {"jobs.db"}
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_what_a_killed_daemon_left_in_the_log_is_read(
    path: Path, writer: sqlite3.Connection, tmp_path: Path
) -> None:
    put(writer)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in ("", "-wal"):
        left = path.with_name(path.name + suffix)
        (crashed / left.name).write_bytes(left.read_bytes())
    assert read_status(crashed / "jobs.db")["counts"] == {"pending": 1}


def test_a_backup_is_whole_and_private(path: Path, writer: sqlite3.Connection) -> None:
    job_id = put(writer, payload=b'"' + b"x" * 9_000_000 + b'"')
    put(writer, "dead")
    destination = path.with_name("copy.db")
    steps: list[tuple[int, int]] = []
    assert backup(path, destination, lambda done, total: steps.append((done, total))) == 2
    assert steps == sorted(steps)
    assert len(steps) > 1
    assert steps[0][0] == 1024
    assert steps[-1][0] == steps[-1][1] == destination.stat().st_size // 4096
    assert read_job(destination, job_id) == read_job(path, job_id)
    assert check(destination) == []
    assert destination.stat().st_mode & 0o777 == 0o600
    assert names(path) == {"jobs.db", "jobs.db-wal", "jobs.db-shm", "copy.db"}


def test_a_busy_writer_does_not_change_a_backup(path: Path, writer: sqlite3.Connection) -> None:
    put(writer, payload=b'"' + b"x" * 9_000_000 + b'"')
    destination = path.with_name("copy.db")
    steps: list[int] = []

    def write_meanwhile(done: int, total: int) -> None:
        steps.append(done)
        put(writer)

    assert backup(path, destination, write_meanwhile) == 1
    assert steps == sorted(set(steps))
    assert len(steps) > 1


def test_a_daemon_that_starts_meanwhile_is_noticed(path: Path, writer: sqlite3.Connection) -> None:
    put(writer)
    writer.close()
    destination = path.with_name("copy.db")
    woken: list[sqlite3.Connection] = []

    def wake(done: int, total: int) -> None:
        if not woken:
            woken.append(open_writer(path, "full"))
            put(woken[0])

    assert backup(path, destination, wake) == 2
    woken[0].close()


def test_a_backup_overwrites_nothing(path: Path, writer: sqlite3.Connection) -> None:
    destination = path.with_name("copy.db")
    destination.write_text("precious")
    with pytest.raises(FileExistsError, match="overwrites nothing"):
        backup(path, destination)
    destination.unlink()
    with pytest.raises(FileExistsError):
        backup(path, destination, lambda *_: destination.touch())
    assert destination.read_bytes() == b""


def test_a_backup_broken_off_leaves_nothing(path: Path, writer: sqlite3.Connection) -> None:
    before = names(path)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(path, path.with_name("copy.db"), stop)
    assert names(path) == before


def test_wrong_counts_and_payloads_are_found(path: Path, writer: sqlite3.Connection) -> None:
    flipped, lost, _ = (put(writer) for _ in range(3))
    assert check(path) == []
    writer.execute("UPDATE counts SET n = 5")
    writer.execute("UPDATE payloads SET payload = x'31' WHERE seq = ?", (place_of(flipped),))
    writer.execute("DELETE FROM payloads WHERE seq = ?", (place_of(lost),))
    assert check(path) == [
        "counts say 5 pending jobs of type greet with priority 5, there are 3",
        f"the payload of job {flipped} is not what was submitted",
        f"job {lost} has no payload",
    ]


def test_a_broken_index_is_found(path: Path, writer: sqlite3.Connection) -> None:
    for _ in range(3):
        put(writer)
    root = "SELECT rootpage FROM sqlite_master WHERE name = 'jobs_pending'"
    page = int(writer.execute(root).fetchone()[0])
    writer.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        # An index page that is well formed and empty.
        file.write(bytes([10, 0, 0, 0, 0, 16, 0, 0]))
    faults = check(path)
    assert any("jobs_pending" in fault for fault in faults)


def test_a_cut_file_is_damaged(path: Path, writer: sqlite3.Connection) -> None:
    put(writer)
    writer.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedDatabase):
        check(path)


def test_there_must_be_a_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_status(path)
    with pytest.raises(FileNotFoundError):
        read_job(path, "x")
    with pytest.raises(FileNotFoundError):
        check(path)
    with pytest.raises(FileNotFoundError):
        backup(path, path.with_name("copy.db"))
    assert names(path) == set()


def test_a_file_nobody_has_used_yet_is_sound_and_has_no_jobs(path: Path) -> None:
    path.touch()
    assert check(path) == []
    with pytest.raises(FileNotFoundError):
        read_status(path)


def test_other_files_are_not_ours(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 1000)
    with pytest.raises(DamagedDatabase):
        read_status(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE jobs (x)")
    with pytest.raises(DamagedDatabase, match="not a jobqueued database"):
        check(path)


def test_a_newer_schema_is_not_guessed_at(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute(f"PRAGMA user_version = {len(shipped_migrations()) + 1}")
    with pytest.raises(NewerDatabase, match="nothing was changed"):
        read_status(path)


def test_a_directory_is_no_database(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreUnavailable):
        read_status(path)
