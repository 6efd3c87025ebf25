"""Opening the file: pragmas, checks, and one queue item per whole transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from jobqueued.model.errors import (
    DamagedDatabase,
    DiskFull,
    StoreError,
    StoreLocked,
    StoreUnavailable,
)
from jobqueued.store.sqlite.files import sync_file, trouble_reading

P = ParamSpec("P")
T = TypeVar("T")

APPLICATION_ID = 0x4A6F6251
BUSY_TIMEOUT_MS = 10_000
_FULL = 13
_BUSY = {5, 6}
_DAMAGED = {11, 26}
_FATAL = {8, 10, 14} | _DAMAGED
"""READONLY, IOERR, CANTOPEN, CORRUPT, NOTADB: what is on disk is no longer known."""
_NOT_WRITTEN = {10 | 3 << 8, 10 | 19 << 8}
"""IOERR_WRITE, IOERR_SHMSIZE: what SQLite makes of a quota, and of a full disk in the -shm file."""


SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What a call of SQLite raises; the second where its message quotes what is damaged."""


class Connection(aiosqlite.Connection):
    """An aiosqlite connection that runs a whole function in its thread."""

    async def run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """One hop to the thread and back, however many statements `work` executes."""
        return cast(T, await self._execute(work, self._conn, *args, **kwargs))  # type: ignore[no-untyped-call]


async def connect(opener: Callable[[], sqlite3.Connection]) -> Connection:
    """A connection in a thread of its own, opened there."""
    return cast(Connection, await Connection(opener, iter_chunk_size=64))


def open_writer(path: Path, durability: str) -> sqlite3.Connection:
    """The one connection that writes and checkpoints."""
    if not path.exists() or path.stat().st_size == 0:
        _create(path.resolve())
    connection = _open(f"{path.absolute().as_uri()}?mode=rw")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    [(mode,)] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        connection.close()
        raise StoreError(f"{path}: this file system cannot do SQLite's WAL mode (got {mode})")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    # The writer copies the log itself: SQLite would tell nobody when that fails.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute("PRAGMA cache_size = -16000")
    return connection


def _create(path: Path) -> None:
    """Make the file under another name first, so that no power cut leaves half a header."""
    unfinished = path.with_name(path.name + ".new")
    # A log without its database would be taken for that of the new one.
    for stale in (unfinished, *_beside(unfinished), *_beside(path)):
        stale.unlink(missing_ok=True)
    with closing(_open(f"{unfinished.as_uri()}?mode=rwc")) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        # It answers before it writes: only who reads on is told of an error.
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if path.exists():
        unfinished.chmod(path.stat().st_mode & 0o777)
    sync_file(unfinished)
    unfinished.rename(path)
    sync_file(path)


def _beside(path: Path) -> list[Path]:
    """The files SQLite keeps next to a database."""
    return [path.with_name(path.name + suffix) for suffix in ("-journal", "-wal", "-shm")]


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    connection = _open(f"{path.absolute().as_uri()}?mode=rw")
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute("PRAGMA cache_size = -4000")
    return connection


def cut_log(connection: sqlite3.Connection) -> bool:
    """Copy the log into the file and empty it; False when a reader was in the way."""
    connection.execute("PRAGMA busy_timeout = 50")
    try:
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return bool(row[0] == 0)


def _open(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=1024
    )


def is_fatal(error: Exception) -> bool:
    """Whether the outcome of a write is unknown, so that only a restart can tell."""
    return _code(error) in _FATAL


def is_disk_full(error: Exception) -> bool:
    return _code(error) == _FULL


def may_be_disk_full(error: Exception) -> bool:
    """Whether it may have been space that was missing, though SQLite does not say so."""
    return getattr(error, "sqlite_errorcode", 0) in _NOT_WRITTEN


def is_busy(error: Exception) -> bool:
    """Whether another program holds the file; it was waited for already."""
    return _code(error) in _BUSY


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def no_space(path: Path) -> DiskFull:
    """That nothing more fits, with what to do."""
    return DiskFull(f"no space left for {path}; free some, submissions resume by themselves")


def explain(path: Path, error: Exception) -> StoreError:
    """One of SQLITE_ERRORS as one of ours, with what to do."""
    if is_disk_full(error):
        return no_space(path)
    if is_busy(error):
        return StoreLocked(f"another program holds {path} for writing; nothing was written")
    if _code(error) in _DAMAGED or isinstance(error, UnicodeDecodeError):
        # SQLite speaks of damage also where the disk could not be read.
        if (trouble := trouble_reading(path)) is not None:
            return StoreUnavailable(f"{path} cannot be read: {trouble.strerror}")
        return DamagedDatabase(
            f"{path} is damaged ({error}); keep it, restore a backup, run `jobqueued doctor`"
        )
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return (StoreUnavailable if is_fatal(error) else StoreError)(f"{path}: {error} ({name})")


class Readers:
    """A few connections for reading, lent out one at a time."""

    def __init__(self, connections: list[Connection]) -> None:
        self._idle: asyncio.Queue[Connection] = asyncio.Queue()
        self._all = connections
        for connection in connections:
            self._idle.put_nowait(connection)

    async def run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        connection = await self._idle.get()
        try:
            return await connection.run(work, *args, **kwargs)
        finally:
            self._idle.put_nowait(connection)

    async def close(self) -> None:
        for connection in self._all:
            await connection.close()
