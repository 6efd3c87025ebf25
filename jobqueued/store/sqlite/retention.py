"""Deleting finished jobs that have outlived their retention."""

from __future__ import annotations

import sqlite3

from jobqueued.store.interface import Retained
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL


def remove_outlived(tx: Transaction, retained: Retained, now: int, limit: int) -> int:
    """Delete a bounded number of finished jobs with all that belongs to them; how many."""
    removed = 0
    for status, keep in retained.keep.items():
        values = (status, now - keep, now - retained.idempotency_window, limit - removed)
        rows = tx.execute(SQL["outlived"], values).fetchall()
        for seq, job_type, _, priority, batch_id, tenant, key in rows:
            _delete(tx, seq, batch_id, tenant, key)
            tx.moved(job_type, priority, status, None)
        removed += len(rows)
    tx.execute("PRAGMA incremental_vacuum(64)").fetchall()
    return removed


def _delete(tx: Transaction, seq: int, batch_id: str | None, tenant: str, key: str | None) -> None:
    for name in ("job", "payload", "result", "attempts", "logs"):
        tx.execute(SQL[f"delete_{name}"], (seq,))
    if key is not None:
        tx.execute(SQL["delete_idempotency_key"], (tenant, key, seq))
    if batch_id is not None:
        tx.execute(SQL["delete_empty_batch"], (batch_id, batch_id))


def next_outlived(connection: sqlite3.Connection, retained: Retained) -> int | None:
    """When the next finished job is past its retention."""
    moments = []
    for status, keep in retained.keep.items():
        oldest = connection.execute(SQL["oldest_finished"], (status,)).fetchone()[0]
        if oldest is not None:
            moments.append(oldest + keep)
    return min(moments, default=None)
