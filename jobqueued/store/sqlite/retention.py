"""Deleting finished jobs that have outlived their retention, and what the file holds of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from jobqueued.clock import monotonic
from jobqueued.store.interface import Cleared, Holdings, Retained
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

KEPT_PAGES = 1024
"""Unused pages that stay in the file for the next jobs."""

_Rows = list[tuple[int, str, int]]
_Oldest = tuple[str, int, int]
_rows = msgspec.json.Decoder(_Rows)


def remove_outlived(tx: Transaction, retained: Retained, now: int, most: int) -> Cleared:
    """Delete a bounded number of finished jobs with all that belongs to them."""
    began, removed, there = monotonic(), 0, _statuses(tx)
    for status, keyless, keep in _kinds(retained):
        if removed < most and status in there:
            values = (status, keyless, now - keep, most - removed)
            removed += _remove(tx, status, values)
    if removed < most:
        oldest = now - max(retained.keep.values(), default=0)
        tx.execute(SQL["delete_batches_without_jobs"], (oldest, most))
    return Cleared(removed, monotonic() - began)


def _statuses(tx: Transaction) -> set[str]:
    """Those that jobs have, known without a query."""
    return {status for _, status, _ in tx.delta} | {
        s for s, n in tx.counts.by_status().items() if n
    }


def _remove(tx: Transaction, status: str, values: tuple[str, bool, int, int]) -> int:
    # One row of them all: the thread hands over between any two that it fetches.
    rows = _rows.decode(tx.execute(SQL["outlived"], values).fetchone()[0])
    if rows:
        tx.execute(SQL["delete_jobs"], (msgspec.json.encode([seq for seq, _, _ in rows]).decode(),))
    for _, job_type, priority in rows:
        tx.moved(job_type, priority, status, None)
    return len(rows)


def _kinds(retained: Retained) -> Iterator[tuple[str, bool, int]]:
    """Status, whether without an idempotency key, and how long such a job is kept."""
    for status, keep in retained.keep.items():
        yield status, True, keep
        # Counted from its end, so the window from its submission is over as well.
        yield status, False, max(keep, retained.idempotency_window)


def give_back_space(tx: Transaction, seconds: float) -> Cleared:
    """Shorten the file by unused pages for about so long."""
    began = monotonic()
    spare = _number(tx.execute("PRAGMA freelist_count")) - KEPT_PAGES
    pages = 0
    # Python's sqlite3 stops after the first page, whatever number is asked for.
    while pages < spare and monotonic() - began < seconds:
        tx.execute("PRAGMA incremental_vacuum(1)")
        pages += 1
    return Cleared(pages, monotonic() - began)


def next_outlived(connection: sqlite3.Connection, retained: Retained) -> int | None:
    """When the next finished job is past its retention."""
    return _next(_oldest(connection, retained))


def holdings(connection: sqlite3.Connection, retained: Retained) -> Holdings:
    """What the file holds beside what the counts tell, without walking through it."""
    oldest = _oldest(connection, retained)
    since: dict[str, int] = {}
    for status, at, _ in oldest:
        since[status] = min(at, since.get(status, at))
    pages = _number(connection.execute("PRAGMA freelist_count"))
    return Holdings(
        pages * _number(connection.execute("PRAGMA page_size")),
        since,
        _next(oldest),
    )


def _next(oldest: list[_Oldest]) -> int | None:
    return min((at + keep for _, at, keep in oldest), default=None)


def _oldest(connection: sqlite3.Connection, retained: Retained) -> list[_Oldest]:
    """Of every kind that there is: its status, when its oldest job finished, how long it stays."""
    found = [
        (status, connection.execute(SQL["oldest_finished"], (status, keyless)).fetchone()[0], keep)
        for status, keyless, keep in _kinds(retained)
    ]
    return [one for one in found if one[1] is not None]


def _number(cursor: sqlite3.Cursor) -> int:
    return int(cursor.fetchone()[0])
