"""What the holder of a lease may write: outcome, progress, log, more time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from jobqueued.model.ids import place_of
from jobqueued.model.job import MAX_ERROR, TERMINAL, Held, Lease, Progress, Status
from jobqueued.model.retry import FAILURES
from jobqueued.store.interface import Settlement
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL, run_many

AttemptKey = tuple[int | None, int]
"""seq and attempt"""


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[Status | None]:
    """End attempts; one whose lease is lost changes nothing and gives None."""
    keys = [(place_of(one.lease.job_id), one.lease.attempt) for one in settlements]
    # Of two that end the same attempt the first counts.
    first = dict(zip(reversed(keys), reversed(settlements), strict=True))
    rows = tx.many("settle", [_ending(seq, one) for (seq, _), one in first.items()])
    ended = {(seq, attempt): row for seq, attempt, *row in rows}
    _keep(tx, first, ended)
    for status, job_type, priority, *_ in ended.values():
        tx.moved(job_type, priority, Status.PROCESSING, status)
    return [
        Status(ended[key][0]) if key in ended and first[key] is one else None
        for key, one in zip(keys, settlements, strict=True)
    ]


def _ending(seq: int | None, settlement: Settlement) -> tuple[object, ...]:
    following, outcome = settlement.next, settlement.outcome
    return (
        seq, settlement.lease.token, settlement.at,
        following.status.value, following.status not in TERMINAL, following.run_at,
        following.failures, following.losses,
        _error(settlement) if outcome.kind in FAILURES else None,
    )  # fmt: skip


def _error(settlement: Settlement) -> str | None:
    error = settlement.outcome.error
    return None if error is None else error[:MAX_ERROR]


def _keep(
    tx: Transaction,
    settlements: Mapping[AttemptKey, Settlement],
    ended: Mapping[AttemptKey, Sequence[Any]],
) -> None:
    """Put on disk what is to be kept of attempts that have ended."""
    attempts, logs, results = [], [], []
    for (seq, number), (_, _, _, worker, started_at) in ended.items():
        settlement = settlements[seq, number]
        outcome = settlement.outcome
        attempts.append(
            (
                seq, number, worker, started_at, settlement.at, outcome.kind.value,
                _error(settlement), outcome.exit_code, outcome.http_status,
                outcome.max_rss_bytes, outcome.cpu_ms,
            )
        )  # fmt: skip
        if outcome.log:
            logs.append((seq, number, outcome.log))
        if outcome.result is not None:
            results.append((seq, outcome.result))
    tx.many("insert_attempt", attempts)
    tx.many("put_log", logs)
    tx.many("put_result", results)


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
