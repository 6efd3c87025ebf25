"""Looking into the files that a power cut left: is everything there that was promised?"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jobqueued.model.errors import StoreError
from jobqueued.store.sqlite.migrate import check_before_opening
from tests.fault.power.promises import TERMINAL, Promise, Promises, Word

_ROWS = """
SELECT id, status, attempt, cancel_requested, payload, checksum
FROM jobs LEFT JOIN payloads USING (seq)
"""
_KEPT = "SELECT type, status, priority, n FROM counts WHERE n ORDER BY 1, 2, 3"
_REAL = "SELECT type, status, priority, count(*) FROM jobs GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"


class Row(NamedTuple):
    """What the database says about a job."""

    id: str
    status: str
    attempt: int
    cancel_requested: int
    payload: bytes | None
    checksum: int | None


@dataclass(slots=True)
class Findings:
    """What is wrong with one image."""

    moment: float
    """When the power went, on the monotonic clock."""
    lost: list[Promise] = field(default_factory=list)
    """Acknowledged jobs that are not there."""
    violations: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.violations or self.corrupt)

    @property
    def oldest_lost(self) -> float:
        """Seconds for which the longest acknowledged of the lost jobs had been so."""
        return max((self.moment - promise.at for promise in self.lost), default=0.0)


def inspect(database: Path, schema: int, promised: Promises, moment: float) -> Findings:
    """Hold a database against what was promised before the power went."""
    findings = Findings(moment)
    rows = _read(database, schema, findings)
    for promise in promised.by(moment):
        row = rows.get(promise.job_id)
        if row is not None:
            findings.violations += _broken(promise, row)
        elif promise.word is Word.ACCEPTED and not promised.may_be_gone(promise.job_id, moment):
            findings.lost.append(promise)
    findings.violations += _unexpected(rows, promised, moment)
    return findings


def _read(database: Path, schema: int, findings: Findings) -> dict[str, Row]:
    """Every job by its id; faults of the file itself are noted."""
    try:
        if check_before_opening(database, schema) == 0:
            return {}
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            findings.corrupt += _faults(connection)
            return {row[0]: Row(*row) for row in connection.execute(_ROWS)}
    except (sqlite3.Error, StoreError) as error:
        findings.corrupt.append(f"{type(error).__name__}: {error}")
        return {}


def _faults(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"integrity_check: {line}"
    if connection.execute(_KEPT).fetchall() != connection.execute(_REAL).fetchall():
        yield "the counts are not those of the rows"


def _broken(promise: Promise, row: Row) -> Iterator[str]:
    """How the state of a job breaks a promise."""
    wrong = _JUDGES[promise.word](promise, row)
    if wrong is not None:
        yield f"job {row.id} {promise.word}: {wrong}"
    if row.attempt < promise.attempt:
        yield f"job {row.id}: attempt {promise.attempt} was seen, {row.attempt} is on disk"


def _judge_payload(promise: Promise, row: Row) -> str | None:
    if row.payload is None or zlib.crc32(row.payload) != row.checksum:
        return "its payload is missing or damaged"
    return None if json.loads(row.payload) == promise.payload else "its payload is another"


def _judge_status(promise: Promise, row: Row) -> str | None:
    if promise.status in TERMINAL and row.status != promise.status:
        return f"shown as {promise.status}, {row.status} on disk"
    return None


def _judge_cancellation(promise: Promise, row: Row) -> str | None:
    if row.status in TERMINAL or row.cancel_requested:
        return None
    return f"{row.status} on disk, and nothing says that it is to be stopped"


_JUDGES: dict[Word, Callable[[Promise, Row], str | None]] = {
    Word.ACCEPTED: _judge_payload,
    Word.SHOWN: _judge_status,
    Word.CANCELLED: _judge_cancellation,
    Word.STARTED: lambda promise, row: None,
}


def _unexpected(rows: dict[str, Row], promised: Promises, moment: float) -> Iterator[str]:
    for row in rows.values():
        number = json.loads(row.payload)["number"] if row.payload else ""
        if not promised.may_be_there(number, moment):
            yield f"job {row.id} is there, and nobody had asked for it"
