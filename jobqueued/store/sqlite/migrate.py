"""From the schema a file has to the one this version needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jobqueued.model.errors import DamagedDatabase, NewerDatabase
from jobqueued.store.sqlite.connection import APPLICATION_ID, SQLITE_ERRORS, explain
from jobqueued.store.sqlite.files import sync_file


def shipped_migrations() -> list[str]:
    """The scripts of this version, in order; number N makes schema version N."""
    scripts = [f for f in files(f"{__package__}.migrations").iterdir() if f.name.endswith(".sql")]
    return [script.read_text() for script in sorted(scripts, key=lambda script: script.name)]


def check_before_opening(path: Path, newest: int) -> int:
    """The schema version of a file, 0 for none; refuses what is not ours without touching it."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={_mode(path)}", uri=True)
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
            pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
            page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        finally:
            connection.close()
    except SQLITE_ERRORS as error:
        raise explain(path, error) from error
    _judge(path, version, owner, newest)
    _check_length(path, pages * page_size)
    return version


def _mode(path: Path) -> str:
    """With what is in the log, where there is one; without leaving anything behind."""
    wal = path.with_name(path.name + "-wal")
    return "ro" if wal.exists() and wal.stat().st_size else "ro&immutable=1"


def _judge(path: Path, version: int, owner: int, newest: int) -> None:
    if owner != APPLICATION_ID:
        raise DamagedDatabase(f"{path} is not a jobqueued database; choose another store.path")
    if version > newest:
        raise NewerDatabase(
            f"{path} has schema {version}, this jobqueued knows up to {newest}; "
            "install the newer version again, nothing was changed"
        )


def _check_length(path: Path, expected: int) -> None:
    wal = path.with_name(path.name + "-wal")
    if path.stat().st_size < expected and not (wal.exists() and wal.stat().st_size):
        raise DamagedDatabase(
            f"{path} is cut short ({path.stat().st_size} of {expected} bytes); restore a backup"
        )


def migrate(connection: sqlite3.Connection, path: Path, scripts: Sequence[str]) -> Path | None:
    """Bring the schema up to date in one transaction; returns the backup made before, if any."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == len(scripts):
        return None
    backup = _back_up(connection, path, version) if version else None
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts[version:]:
            _run_script(connection, script)
        connection.execute(f"PRAGMA user_version = {len(scripts)}")
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return backup


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    backup = path.with_name(f"{path.name}.schema-{version}.backup")
    backup.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(backup),))
    sync_file(backup)
    return backup


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: executescript would commit the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
