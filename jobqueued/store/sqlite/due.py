"""Jobs whose time has come, or has passed."""

from __future__ import annotations

import sqlite3

from jobqueued.model.job import Status
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL


def promote(tx: Transaction, now: int, limit: int) -> int:
    """Make due jobs pending; how many."""
    rows = tx.execute(SQL["due"], (now, limit)).fetchall()
    tx.many("promote", [row[:1] for row in rows])
    for _, job_type, status, priority, tenant, key in rows:
        tx.moved(job_type, priority, status, Status.PENDING)
        tx.touched(job_type, tenant, key)
    return len(rows)


def expire(tx: Transaction, now: int, limit: int) -> list[str]:
    """Expire waiting jobs; their ids."""
    rows = tx.execute(SQL["expiring"], (now, limit)).fetchall()
    for seq, _, job_type, status, priority, tenant, key in rows:
        tx.execute(SQL["expire"], (now, seq))
        tx.moved(job_type, priority, status, Status.EXPIRED)
        tx.touched(job_type, tenant, key)
    return [row[1] for row in rows]


def next_due(connection: sqlite3.Connection) -> int | None:
    """When the next waiting job is due or expires."""
    moments = (connection.execute(SQL[name]).fetchone()[0] for name in ("next_due", "next_expiry"))
    return min((moment for moment in moments if moment is not None), default=None)
