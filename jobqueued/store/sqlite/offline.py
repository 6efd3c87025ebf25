"""Reading, copying and checking the database without a daemon, and beside a running one."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jobqueued import __version__, clock
from jobqueued.model.change import Change
from jobqueued.model.errors import DamagedDatabase, DiskFull, NewerDatabase
from jobqueued.model.ids import place_of
from jobqueued.model.job import Status
from jobqueued.store.sqlite.changes import read_changes
from jobqueued.store.sqlite.connection import APPLICATION_ID, SQLITE_ERRORS, explain, is_disk_full
from jobqueued.store.sqlite.files import sync_file
from jobqueued.store.sqlite.jobs import DAMAGED, is_intact
from jobqueued.store.sqlite.migrate import shipped_migrations
from jobqueued.store.sqlite.queries import SQL

T = TypeVar("T")
Row = dict[str, Any]

_WITH_CONTROL = 2
"""The first schema that has controls and changes; older files wait for a daemon to migrate them."""
_PAGES_A_STEP = 1024
_MOST_FAULTS = 20
"""Faults of one kind that are named; a damaged disk has thousands."""


class _Unused(FileNotFoundError):
    """The file is there, but no daemon has made its tables yet."""


def read_status(path: Path) -> dict[str, object]:
    """What GET /stats would say, as far as the file can tell."""
    return _reading(path, lambda connection: _status(connection, path))


def read_job(path: Path, job_id: str) -> dict[str, object] | None:
    """A job as the API shows it, with its history; payload and result are JSON as it was sent."""
    return _reading(path, lambda connection: _job(connection, path, job_id))


def backup(
    path: Path, destination: Path, progress: Callable[[int, int], None] | None = None
) -> int:
    """Copy the database as of one moment to a new file and check it; how many jobs it has."""
    _refuse_to_overwrite(destination)
    descriptor, name = tempfile.mkstemp(dir=destination.parent, prefix=f".{destination.name}.")
    os.close(descriptor)
    unfinished = Path(name)
    try:
        _reading(path, lambda source: _copy(source, unfinished, destination, progress))
        jobs = _count_checked(unfinished)
        sync_file(unfinished)
        _refuse_to_overwrite(destination)
        unfinished.rename(destination)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_file(destination)
    return jobs


def check(path: Path) -> list[str]:
    """Everything wrong inside the file; empty when it is sound."""
    try:
        return _reading(path, _faults)
    except _Unused:
        return []


def _reading(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` on one moment of the database, leaving no file behind that was not there."""
    before = _resting(path)
    if before is None:
        return _run(path, "mode=ro", work)
    # Even a reader makes -wal and -shm where there are none and cannot remove them, and in a
    # read-only directory it fails. A file at rest is read as it is; if a daemon woke, once more.
    try:
        answer = _run(path, "mode=ro&immutable=1", work)
    except Exception:
        if _resting(path) == before:
            raise
    else:
        if _resting(path) == before:
            return answer
    return _run(path, "mode=ro", work)


def _resting(path: Path) -> tuple[int, int, int] | None:
    """What tells this state of the file from a later one; None when it may be in use."""
    if _bytes(path, "-wal") or path.with_name(path.name + "-shm").exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _run(path: Path, mode: str, work: Callable[[sqlite3.Connection], T]) -> T:
    uri = f"{path.absolute().as_uri()}?{mode}"
    path.stat()
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            _judge(connection, path)
            return work(connection)
    except SQLITE_ERRORS as error:
        raise explain(path, error) from error


def _judge(connection: sqlite3.Connection, path: Path) -> None:
    version, owner = _number(connection, "user_version"), _number(connection, "application_id")
    newest = len(shipped_migrations())
    if owner == APPLICATION_ID and version > newest:
        raise NewerDatabase(
            f"{path} has schema {version}, this jobqueued knows up to {newest}; "
            "use the newer version, nothing was changed"
        )
    if version == 0 and (owner == APPLICATION_ID or _number(connection, "page_count") == 0):
        raise _Unused(f"{path} has no jobs yet")
    if owner != APPLICATION_ID:
        raise DamagedDatabase(f"{path} is not a jobqueued database; name another store.path")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _bytes(path: Path, suffix: str = "") -> int:
    try:
        return path.with_name(path.name + suffix).stat().st_size
    except FileNotFoundError:
        return 0


def _rows(connection: sqlite3.Connection, statement: str, *values: object) -> list[Row]:
    cursor = connection.execute(statement, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _status(connection: sqlite3.Connection, path: Path) -> dict[str, object]:
    counts: dict[str, int] = {}
    types: dict[str, Row] = {}
    for row in _rows(connection, SQL["read_counts"]):
        if row["n"]:
            of_type = types.setdefault(row["type"], {"counts": {}})["counts"]
            for total in (counts, of_type):
                total[row["status"]] = total.get(row["status"], 0) + row["n"]
    for name, held in _held(connection):
        types.setdefault(name, {"counts": {}}).update(held)
    return {
        "version": __version__,
        "ready": False,
        "counts": counts,
        "types": types,
        "dlq_depth": counts.get(Status.DEAD, 0),
        "oldest_pending_seconds": _oldest_pending(connection),
        "store": {
            "bytes": _bytes(path),
            "wal_bytes": _bytes(path, "-wal"),
            "free_bytes": _number(connection, "freelist_count") * _number(connection, "page_size"),
        },
    }


def _held(connection: sqlite3.Connection) -> Iterator[tuple[str, Row]]:
    """The types that are paused, or whose breaker is open."""
    if _number(connection, "user_version") < _WITH_CONTROL:
        return
    for row in _rows(connection, SQL["read_controls"]):
        held = {
            "paused": row["paused_at"] is not None,
            "breaker": "closed" if row["breaker_since"] is None else "open",
        }
        if held != {"paused": False, "breaker": "closed"}:
            yield row["type"], held


def _oldest_pending(connection: sqlite3.Connection) -> float | None:
    # A file that no newer daemon has opened yet holds nobody back.
    runnable = "held_back = 0" if _number(connection, "user_version") >= _WITH_CONTROL else "true"
    since = connection.execute(
        f"SELECT min(run_at) FROM jobs WHERE status = 'pending' AND {runnable}"
    ).fetchone()
    return None if since[0] is None else max(clock.now() - since[0], 0) / 1000


def _job(connection: sqlite3.Connection, path: Path, job_id: str) -> dict[str, object] | None:
    place = place_of(job_id)
    rows = _rows(connection, f"{SQL['select_jobs']} WHERE seq = ? AND id = ?", place, job_id)
    if not rows:
        return None
    job = rows[0]
    attempts = [_attempt(row) for row in _rows(connection, SQL["attempts"], place)]
    if job["status"] == Status.PROCESSING:
        attempts.append(_running_attempt(job))
    percent, message = job.pop("progress_percent"), job.pop("progress_message")
    job["progress"] = None if percent is None else {"percent": percent, "message": message}
    if not is_intact(job["payload"], job.pop("checksum")):
        job["payload"] = DAMAGED
    for name in ("payload", "result"):
        job[name] = _json(path, job_id, job[name])
    changes = [_change(path, job_id, row) for row in _changes(connection, job_id)]
    return {**_with_times(job), "attempts": attempts, "changes": changes}


def _changes(connection: sqlite3.Connection, job_id: str) -> list[Change]:
    """A file that no newer daemon has opened yet has none."""
    has_changes = _number(connection, "user_version") >= _WITH_CONTROL
    return read_changes(connection, job_id) if has_changes else []


def _change(path: Path, job_id: str, change: Change) -> Row:
    row = msgspec.structs.asdict(change)
    before = _json(path, job_id, row["payload_before"])
    row |= {"at": clock.rfc3339(change.at), "edited": before is not None, "payload_before": before}
    return row


def _attempt(row: Row) -> Row:
    return _with_times({**row, "duration_ms": row["finished_at"] - row["started_at"]})


def _running_attempt(job: Row) -> Row:
    known = {"number": job["attempt"], "worker": job["worker"], "started_at": job["started_at"]}
    unknown = ("finished_at", "duration_ms", "outcome", "error", "exit_code", "http_status",
               "max_rss_bytes", "cpu_ms")  # fmt: skip
    return _with_times({**known, **dict.fromkeys(unknown)})


def _with_times(row: Row) -> Row:
    return {
        name: clock.rfc3339(value) if name.endswith("_at") and value is not None else value
        for name, value in row.items()
    }


def _json(path: Path, job_id: str, text: bytes | None) -> msgspec.Raw | None:
    """Not decoded, because 1.10 and 1.1 are the same number but not the same digits."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=msgspec.Raw).copy()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedDatabase(f"{path}: JSON of job {job_id} is damaged ({error})") from error


def _refuse_to_overwrite(destination: Path) -> None:
    if os.path.lexists(destination):
        raise FileExistsError(f"{destination} is there already; a backup overwrites nothing")


def _copy(
    source: sqlite3.Connection,
    unfinished: Path,
    destination: Path,
    progress: Callable[[int, int], None] | None,
) -> None:
    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    os.truncate(unfinished, 0)
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as target:
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            # The transaction open on the source keeps a busy writer from starting this over.
            source.backup(target, pages=_PAGES_A_STEP, progress=report)
    except sqlite3.Error as error:
        if is_disk_full(error):
            raise DiskFull(f"no space left for {destination}; nothing was kept of it") from error
        raise


def _count_checked(copy: Path) -> int:
    return _run(copy, "mode=ro&immutable=1", _count_if_sound)


def _count_if_sound(connection: sqlite3.Connection) -> int:
    faults = _pragma_faults(connection, "quick_check")
    if faults:
        raise DamagedDatabase(f"the copy is damaged, so it was not kept: {faults[0]}")
    return int(connection.execute("SELECT count(*) FROM jobs").fetchone()[0])


def _faults(connection: sqlite3.Connection) -> list[str]:
    structure = _pragma_faults(connection, "integrity_check")
    if structure:
        return structure
    return [*_miscounts(connection), *_payload_faults(connection)]


def _pragma_faults(connection: sqlite3.Connection, pragma: str) -> list[str]:
    rows = [str(row[0]) for row in connection.execute(f"PRAGMA {pragma}({_MOST_FAULTS})")]
    return [] if rows == ["ok"] else rows


def _miscounts(connection: sqlite3.Connection) -> list[str]:
    by_lane = "SELECT type, status, priority, count(*) FROM jobs GROUP BY type, status, priority"
    real = {row[:3]: row[3] for row in connection.execute(by_lane)}
    kept = {row[:3]: row[3] for row in connection.execute(SQL["read_counts"])}
    return [
        f"counts say {kept.get(lane, 0)} {lane[1]} jobs of type {lane[0]} with priority "
        f"{lane[2]}, there are {real.get(lane, 0)}"
        for lane in sorted(real.keys() | kept.keys())
        if kept.get(lane, 0) != real.get(lane, 0)
    ][:_MOST_FAULTS]


def _payload_faults(connection: sqlite3.Connection) -> list[str]:
    found: list[str] = []
    for job_id, payload, checksum in connection.execute(
        "SELECT id, payload, checksum FROM jobs LEFT JOIN payloads USING (seq) ORDER BY seq"
    ):
        if payload is None:
            found.append(f"job {job_id} has no payload")
        elif not is_intact(payload, checksum):
            found.append(f"the payload of job {job_id} is not what was submitted")
        if len(found) == _MOST_FAULTS:
            break
    return found
