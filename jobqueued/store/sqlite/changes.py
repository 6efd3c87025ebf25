"""What people did to a job, kept in the transaction that does it."""

from __future__ import annotations

import sqlite3

from jobqueued.model.change import Act, Change
from jobqueued.model.ids import place_of
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

MOST_CHANGES = 100
"""Kept of one job: the newest."""
MOST_BYTES = 1024 * 1024
"""Of earlier payloads shown at once; what is older is left out rather than take all memory."""


def add_change(
    tx: Transaction, seq: int, action: str, act: Act, payload_before: bytes | None = None
) -> None:
    """Note who did what to a job."""
    values = (act.at, act.actor, action, act.note, payload_before, seq)
    tx.execute(SQL["add_change"], values)
    tx.execute(SQL["delete_old_changes"], (seq, MOST_CHANGES, seq))


def read_changes(connection: sqlite3.Connection, job_id: str) -> list[Change]:
    """First to last."""
    found: list[Change] = []
    size = 0
    for number, at, attempt, actor, action, note, payload in connection.execute(
        SQL["changes"], (place_of(job_id),)
    ):
        size += len(payload or b"")
        if found and size > MOST_BYTES:
            break
        found.append(
            Change(
                number=number, at=at, attempt=attempt, actor=actor, action=action, note=note,
                payload_before=payload,
            )
        )  # fmt: skip
    return found[::-1]
