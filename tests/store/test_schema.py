"""The schema refuses what the model does not allow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from jobqueued.model.job import MAX_PRIORITY, MAX_RETRIES, TERMINAL, TRANSITIONS, Status
from jobqueued.model.outcome import OutcomeKind
from jobqueued.store.sqlite.connection import open_writer
from jobqueued.store.sqlite.migrate import migrate, shipped_migrations

STARTED = {"attempt": 1, "started_at": 1}
LEASED = {"held_by": "daemon", "lease_token": "t", "lease_expires_at": 1}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("schema") / "jobs.db"
    with closing(open_writer(path, "normal")) as connection:
        migrate(connection, path, shipped_migrations())
        yield connection


@pytest.fixture
def database(migrated: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    migrated.execute("BEGIN")
    yield migrated
    migrated.execute("ROLLBACK")


def row(status: Status, **fields: Any) -> dict[str, Any]:
    """A row that is right for its status."""
    values: dict[str, Any] = {"seq": 1, "id": "a", "type": "mail", "status": str(status)}
    values |= {"priority": 5, "max_retries": 3, "created_at": 1, "run_at": 1, "failures": 1}
    values |= STARTED | dict.fromkeys((*LEASED, "finished_at"))
    if status is Status.PROCESSING:
        values |= LEASED
    if status in TERMINAL:
        values["finished_at"] = 1
    return values | fields


def insert(database: sqlite3.Connection, values: dict[str, Any], table: str = "jobs") -> None:
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", values)


def move(database: sqlite3.Connection, status: Status) -> None:
    values = row(status)
    fields = ", ".join(f"{name} = :{name}" for name in values)
    database.execute(f"UPDATE jobs SET {fields} WHERE seq = 1", values)


@pytest.mark.parametrize("status", Status)
def test_every_status_of_the_model_is_allowed(database: sqlite3.Connection, status: Status) -> None:
    insert(database, row(status))
    assert database.execute("SELECT status FROM jobs").fetchall() == [(status,)]


@pytest.mark.parametrize(("old", "new"), list(product(Status, Status)))
def test_the_transitions_are_those_of_the_model(
    database: sqlite3.Connection, old: Status, new: Status
) -> None:
    insert(database, row(old))
    if new in TRANSITIONS[old] or new is old:
        move(database, new)
        assert database.execute("SELECT status FROM jobs").fetchall() == [(new,)]
    else:
        with pytest.raises(sqlite3.IntegrityError, match="cannot go to that status"):
            move(database, new)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "lost"},
        {"priority": -1},
        {"priority": MAX_PRIORITY + 1},
        {"max_retries": -1},
        {"max_retries": MAX_RETRIES + 1},
        {"attempt": -1, "failures": 0},
        {"failures": -1},
        {"failures": 2},
        {"attempt": 9, "failures": 5},
        {"losses": -1},
        {"losses": 2},
        {"cancel_requested": 2},
        {"progress_percent": -0.1},
        {"progress_percent": 100.1},
        {"type": None},
        {"id": None},
        {"created_at": None},
        {"run_at": None},
    ],
)
def test_no_field_leaves_its_bounds(database: sqlite3.Connection, wrong: dict[str, Any]) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(Status.PENDING) | wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"priority": 0},
        {"priority": MAX_PRIORITY},
        {"max_retries": 0},
        {"max_retries": MAX_RETRIES, "attempt": 99, "failures": MAX_RETRIES + 1},
        {"failures": 0},
        {"progress_percent": 0},
        {"progress_percent": 100},
    ],
)
def test_the_bounds_themselves_are_allowed(
    database: sqlite3.Connection, right: dict[str, Any]
) -> None:
    insert(database, row(Status.PENDING, **right))


@pytest.mark.parametrize("name", LEASED)
@pytest.mark.parametrize("status", Status)
def test_what_is_processing_has_a_lease_and_nothing_else_has(
    database: sqlite3.Connection, status: Status, name: str
) -> None:
    wrong = None if status is Status.PROCESSING else LEASED[name]
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(status, **{name: wrong}))


@pytest.mark.parametrize("status", Status)
def test_what_is_over_has_an_end_and_nothing_else_has(
    database: sqlite3.Connection, status: Status
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(status, finished_at=None if status in TERMINAL else 1))


@pytest.mark.parametrize("wrong", [{"attempt": 0, "failures": 0}, {"started_at": None}])
@pytest.mark.parametrize(
    "status",
    [Status.PROCESSING, Status.RETRYING, Status.COMPLETED, Status.DEAD, Status.DISCARDED],
)
def test_what_has_run_was_started(
    database: sqlite3.Connection, status: Status, wrong: dict[str, Any]
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(status, **wrong))


def test_what_waits_for_a_retry_has_failed(database: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(Status.RETRYING, failures=0))


def test_the_holder_is_the_daemon_or_a_remote_worker(database: sqlite3.Connection) -> None:
    insert(database, row(Status.PROCESSING, held_by="remote"))
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, row(Status.PROCESSING, seq=2, held_by="somebody"))


@pytest.mark.parametrize("kind", OutcomeKind)
def test_every_outcome_of_the_model_can_be_kept(
    database: sqlite3.Connection, kind: OutcomeKind
) -> None:
    attempt = {"seq": 1, "number": 1, "started_at": 1, "finished_at": 1}
    insert(database, attempt | {"outcome": str(kind)}, "attempts")
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, attempt | {"number": 2, "outcome": "unheard of"}, "attempts")


def test_counts_are_never_negative(database: sqlite3.Connection) -> None:
    lane = {"type": "mail", "status": "pending", "priority": 5}
    with pytest.raises(sqlite3.IntegrityError):
        insert(database, lane | {"n": -1}, "counts")


def tables(database: sqlite3.Connection) -> list[tuple[str, int]]:
    rows = database.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
    return [(name, strict) for name, strict in rows if not name.startswith("sqlite_")]


def test_every_table_is_strict_about_types(database: sqlite3.Connection) -> None:
    found = tables(database)
    assert {"jobs", "payloads", "counts"} <= {name for name, _ in found}
    assert [name for name, strict in found if not strict] == []
    for wrong in ({"priority": "high"}, {"created_at": 1.5}, {"type": b"mail"}):
        with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
            insert(database, row(Status.PENDING) | wrong)


def test_a_payload_is_bytes(database: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
        insert(database, {"seq": 1, "payload": "text", "checksum": 0}, "payloads")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs SET status = ?, finished_at = ? WHERE seq = ?",
        "INSERT INTO jobs (id, type, status, priority, max_retries, created_at, run_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    ],
)
def test_no_constraint_makes_a_table_for_each_row(
    database: sqlite3.Connection, change: str
) -> None:
    steps = database.execute(f"EXPLAIN {change}", (None,) * change.count("?")).fetchall()
    assert steps
    assert "OpenEphemeral" not in [step[1] for step in steps]


def test_a_file_of_the_first_schema_gets_the_constraints_of_a_new_one(
    migrated: sqlite3.Connection, tmp_path: Path
) -> None:
    path, scripts = tmp_path / "jobs.db", shipped_migrations()
    with closing(open_writer(path, "normal")) as connection:
        migrate(connection, path, scripts[:1])
        insert(connection, row(Status.DEAD))
        migrate(connection, path, scripts)
        with pytest.raises(sqlite3.IntegrityError, match="cannot go to that status"):
            move(connection, Status.COMPLETED)
        assert schema_of(connection) == schema_of(migrated)


def schema_of(database: sqlite3.Connection) -> list[tuple[str, str]]:
    return database.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
