"""What the holder of a lease may write: outcome, progress, log, more time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from jobqueued.model.ids import place_of
from jobqueued.model.job import MAX_ERROR, TERMINAL, Held, Lease, Progress, Status
from jobqueued.model.retry import FAILURES
from jobqueued.store.interface import Settlement
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL, run_many


class Ending(NamedTuple):
    """The end of one attempt as rows; made outside of the writer's thread, which has no time."""

    key: tuple[int | None, int]
    """seq and attempt"""
    job: tuple[object, ...]
    attempt: tuple[object, ...]
    log: bytes | None
    result: bytes | None
    at: int


def ending(settlement: Settlement) -> Ending:
    """What to write for a settlement."""
    lease, outcome, following = settlement.lease, settlement.outcome, settlement.next
    seq = place_of(lease.job_id)
    error = None if outcome.error is None else outcome.error[:MAX_ERROR]
    return Ending(
        (seq, lease.attempt),
        (
            seq, lease.token, settlement.at, following.status.value,
            following.status not in TERMINAL, following.run_at, following.failures,
            following.losses, error if outcome.kind in FAILURES else None,
        ),
        (
            settlement.at, outcome.kind.value, error, outcome.exit_code, outcome.http_status,
            outcome.max_rss_bytes, outcome.cpu_ms,
        ),
        outcome.log,
        outcome.result,
        settlement.at,
    )  # fmt: skip


def settle(tx: Transaction, endings: Sequence[Ending]) -> list[Status | None]:
    """End attempts; one whose lease is lost changes nothing and gives None."""
    # Of two that end the same attempt the first counts.
    first = {one.key: one for one in reversed(endings)}
    rows = tx.many("settle", [one.job for one in first.values()])
    ended = {(seq, attempt): row for seq, attempt, *row in rows}
    _keep(tx, [(first[key], row) for key, row in ended.items()])
    tx.latest = max([tx.latest, *(first[key].at for key in ended)])
    for status, job_type, priority, tenant, key, *_ in ended.values():
        tx.moved(job_type, priority, Status.PROCESSING, status)
        if key is not None:
            tx.touched(job_type, tenant, key)
    return [
        Status(ended[one.key][0]) if one.key in ended and first[one.key] is one else None
        for one in endings
    ]


def _keep(tx: Transaction, recorded: Sequence[tuple[Ending, Sequence[Any]]]) -> None:
    """Put on disk what is to be kept of attempts that have ended."""
    tx.many("insert_attempt", [(*one.key, *row[5:], *one.attempt) for one, row in recorded])
    tx.many("put_log", [(*one.key, one.log) for one, _ in recorded if one.log])
    tx.many(
        "put_result", [(one.key[0], one.result) for one, _ in recorded if one.result is not None]
    )


def extend(tx: Transaction, leases: Sequence[Lease], expires_at: Sequence[int]) -> list[bool]:
    """Move leases on; False where one was lost."""
    return [
        tx.execute(SQL["extend"], (moment, place_of(lease.job_id), lease.token)).rowcount == 1
        for lease, moment in zip(leases, expires_at, strict=True)
    ]


def report_progress(tx: Transaction, lease: Lease, progress: Progress) -> bool:
    values = (progress.percent, progress.message, place_of(lease.job_id), lease.token)
    return bool(tx.execute(SQL["progress"], values).rowcount == 1)


def keep_log(tx: Transaction, lease: Lease, output: bytes) -> None:
    tx.execute(SQL["put_log_so_far"], (output, place_of(lease.job_id), lease.token))


def read_held(connection: sqlite3.Connection) -> list[Held]:
    return [_held(row) for row in connection.execute(SQL["held_by_daemon"]).fetchall()]


def read_expired(connection: sqlite3.Connection, now: int, limit: int) -> list[Held]:
    return [
        _held(row) for row in connection.execute(SQL["expired_leases"], (now, limit)).fetchall()
    ]


def read_held_under(connection: sqlite3.Connection, tokens: Sequence[str]) -> list[Held | None]:
    """The jobs that remote workers hold under these tokens; None where nothing is any more."""
    places = [(place_of(token.partition(".")[0]),) for token in tokens]
    found = map(_held, run_many(connection.execute, "held_under", places))
    held = {job.lease.token: job for job in found}
    return [held.get(token) for token in tokens]


def _held(row: tuple[Any, ...]) -> Held:
    job_id, attempt, token, job_type, max_retries, failures, losses, started_at, cancelled = row
    return Held(
        lease=Lease(job_id, attempt, token), type=job_type, max_retries=max_retries,
        failures=failures, losses=losses, started_at=started_at, cancel_requested=bool(cancelled),
    )  # fmt: skip
