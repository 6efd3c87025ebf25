"""Deleting finished jobs that have outlived their retention."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from jobqueued.store.interface import Retained
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

KEPT_PAGES = 1024
"""Unused pages that stay in the file for the next jobs."""
_PAGES_AT_ONCE = 256


def remove_outlived(tx: Transaction, retained: Retained, now: int, limit: int) -> int:
    """Delete a bounded number of finished jobs with all that belongs to them; how many."""
    removed = 0
    for status, keyless, keep in _kinds(retained):
        values = (status, keyless, now - keep, limit - removed)
        rows = tx.execute(SQL["outlived"], values).fetchall()
        for seq, job_type, priority, batch_id in rows:
            _delete(tx, seq, batch_id)
            tx.moved(job_type, priority, status, None)
        removed += len(rows)
    oldest = now - max(retained.keep.values(), default=0)
    tx.execute(SQL["delete_batches_without_jobs"], (oldest, limit))
    return removed


def _kinds(retained: Retained) -> Iterator[tuple[str, bool, int]]:
    """Status, whether without an idempotency key, and how long such a job is kept."""
    for status, keep in retained.keep.items():
        yield status, True, keep
        # Counted from its end, so the window from its submission is over as well.
        yield status, False, max(keep, retained.idempotency_window)


def _delete(tx: Transaction, seq: int, batch_id: str | None) -> None:
    for name in ("job", "payload", "result", "attempts", "logs", "changes"):
        tx.execute(SQL[f"delete_{name}"], (seq,))
    if batch_id is not None:
        tx.execute(SQL["delete_empty_batch"], (batch_id, batch_id))


def give_back_space(tx: Transaction) -> bool:
    """Shorten the file by a bounded number of unused pages; whether there are more to give."""
    spare = tx.execute("PRAGMA freelist_count").fetchone()[0] - KEPT_PAGES
    # Python's sqlite3 stops after the first page, whatever number is asked for.
    for _ in range(min(spare, _PAGES_AT_ONCE)):
        tx.execute("PRAGMA incremental_vacuum(1)")
    return bool(spare > _PAGES_AT_ONCE)


def next_outlived(connection: sqlite3.Connection, retained: Retained) -> int | None:
    """When the next finished job is past its retention."""
    moments = []
    for status, keyless, keep in _kinds(retained):
        oldest = connection.execute(SQL["oldest_finished"], (status, keyless)).fetchone()[0]
        if oldest is not None:
            moments.append(oldest + keep)
    return min(moments, default=None)
