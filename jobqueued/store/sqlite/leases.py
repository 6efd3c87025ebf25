"""What the holder of a lease may write: outcome, progress, log, more time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from jobqueued.model.ids import place_of
from jobqueued.model.job import MAX_ERROR, TERMINAL, Held, Lease, Progress, Status
from jobqueued.model.retry import FAILURES
from jobqueued.store.interface import Settlement
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[Status | None]:
    """End attempts; one whose lease is lost changes nothing and gives None."""
    return [_settle_one(tx, settlement) for settlement in settlements]


def _settle_one(tx: Transaction, settlement: Settlement) -> Status | None:
    lease, following, outcome = settlement.lease, settlement.next, settlement.outcome
    seq = place_of(lease.job_id)
    error = outcome.error[:MAX_ERROR] if outcome.error is not None else None
    rows = tx.execute(
        SQL["settle"],
        {
            "seq": seq, "token": lease.token, "at": settlement.at,
            "status": following.status, "runs_again": following.status not in TERMINAL,
            "failure": error if outcome.kind in FAILURES else None,
            "run_at": following.run_at, "failures": following.failures, "losses": following.losses,
        },
    ).fetchall()  # fmt: skip
    if not rows:
        return None
    status, job_type, priority, worker, started_at = rows[0]
    tx.moved(job_type, priority, Status.PROCESSING, status)
    tx.execute(
        SQL["insert_attempt"],
        (
            seq, lease.attempt, worker, started_at, settlement.at, outcome.kind, error,
            outcome.exit_code, outcome.http_status, outcome.max_rss_bytes, outcome.cpu_ms,
        ),
    )  # fmt: skip
    if outcome.log:
        tx.execute(SQL["put_log"], (seq, lease.attempt, outcome.log))
    if outcome.result is not None:
        tx.execute(SQL["put_result"], (seq, outcome.result))
    return Status(status)


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
    """The jobs that are held under these tokens; None where nothing is any more."""
    found = []
    for token in tokens:
        place = place_of(token.partition(".")[0])
        row = connection.execute(SQL["held_under"], (place, token)).fetchone()
        found.append(None if row is None else _held(row))
    return found


def _held(row: tuple[str, int, str, str, int, int, int, int, int]) -> Held:
    job_id, attempt, token, job_type, max_retries, failures, losses, started_at, cancelled = row
    return Held(
        lease=Lease(job_id, attempt, token), type=job_type, max_retries=max_retries,
        failures=failures, losses=losses, started_at=started_at, cancel_requested=bool(cancelled),
    )  # fmt: skip
