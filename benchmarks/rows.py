"""Many jobs at once, put into the database of a daemon that does not run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec

from jobqueued import clock
from jobqueued.model.ids import first_place
from jobqueued.store.sqlite.connection import open_writer
from jobqueued.store.sqlite.migrate import migrate, shipped_migrations

PAYLOAD = b'{"name":"world","number":42}'

_NUMBERS = """
WITH RECURSIVE numbers (n) AS (
    SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :count)
"""
# Ids as the daemon makes them: 4,096 a millisecond, one after the other.
_ID = """
printf('%08x-%04x-7%03x-8000-%012x', (:first + n) >> 28, ((:first + n) >> 12) & 65535,
       (:first + n) & 4095, n)
"""
_JOBS = f"""{_NUMBERS}
INSERT INTO jobs (seq, id, type, status, priority, max_retries, attempt, created_at, run_at,
                  started_at, finished_at, worker, key{{columns}})
SELECT :first + n, {_ID}, :type, :status, 5, 5, :attempt, :at, :at, :ran, :ran, :worker, :key
       {{values}}
FROM numbers
"""
_PAYLOADS = f"{_NUMBERS} INSERT INTO payloads SELECT :first + n, :payload, :checksum FROM numbers"
_ATTEMPTS = f"""{_NUMBERS}
INSERT INTO attempts (seq, number, worker, started_at, finished_at, outcome)
SELECT :first + n, 1, :worker, :ran, :ran, 'completed' FROM numbers WHERE :attempt
"""
_COUNTS = """
INSERT INTO counts
SELECT type, status, priority, count(*) FROM jobs GROUP BY type, status, priority
"""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """So many jobs of a type that were submitted this long ago."""

    count: int
    type: str
    status: str = "pending"
    key: str | None = None
    age_ms: int
    more: dict[str, str] = {}
    """Further columns, each with an SQL expression over `n`, the number of the job."""


def fill(database: Path, kinds: list[Rows]) -> None:
    """Make the database with these jobs in it; a completed one was run when it was submitted."""
    now = clock.now()
    with closing(open_writer(database, "normal")) as connection:
        migrate(connection, database, shipped_migrations())
        connection.execute("BEGIN")
        for rows in kinds:
            values = _values(rows, now - rows.age_ms)
            columns, more = (", ".join(["", *side]) for side in (rows.more, rows.more.values()))
            jobs = _JOBS.format(columns=columns, values=more)
            for statement in (jobs, _PAYLOADS, _ATTEMPTS):
                connection.execute(statement, values)
        connection.execute(_COUNTS)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _values(rows: Rows, at: int) -> dict[str, object]:
    ran = at if rows.status == "completed" else None
    return {
        "count": rows.count,
        "type": rows.type,
        "status": rows.status,
        "first": first_place(at),
        "at": at,
        "ran": ran,
        "attempt": int(ran is not None),
        "worker": None if ran is None else "default-1",
        "key": rows.key,
        "payload": PAYLOAD,
        "checksum": crc32(PAYLOAD),
    }
