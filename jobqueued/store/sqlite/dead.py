"""Dead jobs: which there are, giving them another chance, giving them up."""

from __future__ import annotations

import sqlite3
from zlib import crc32

from jobqueued.model.change import Act, Found, Replay
from jobqueued.model.ids import place_of
from jobqueued.model.job import Status, first_status
from jobqueued.store.sqlite.changes import add_change
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.jobs import DAMAGED, is_intact
from jobqueued.store.sqlite.queries import SQL


def read_dead(
    connection: sqlite3.Connection, job_type: str, after: str | None, limit: int
) -> list[str]:
    """The ids of dead jobs of a type, oldest first."""
    place = place_of(after) if after else -1
    rows = connection.execute(SQL["dead_of_type"], (job_type, place, limit)).fetchall()
    return [row[0] for row in rows]


def replay(tx: Transaction, wanted: Replay, act: Act) -> Found | None:
    """Give a dead job fresh attempts, unless a newer job has its idempotency key."""
    row = _state(tx, wanted.job_id)
    if row is None:
        return None
    seq, job_type, priority, status, idempotency_key, tenant, key = row
    if status != Status.DEAD:
        return Found(status)
    if idempotency_key is not None:
        newer = tx.execute(SQL["newer_of_key"], (idempotency_key, tenant, seq)).fetchone()
        if newer is not None:
            return Found(status, "job {} ({})".format(*newer))
    following = first_status(act.at, wanted.run_at).value
    tx.execute(SQL["replay"], (following, wanted.run_at, wanted.run_at, seq))
    tx.execute(SQL["delete_result"], (seq,))
    before = None if wanted.payload is None else _exchange(tx, seq, wanted.payload)
    add_change(tx, seq, "replay", act, before)
    tx.moved(job_type, priority, status, following)
    tx.touched(job_type, tenant, key)
    return Found(status)


def discard(tx: Transaction, job_id: str, act: Act) -> str | None:
    """Give a dead job up; the status it had before."""
    row = _state(tx, job_id)
    if row is None:
        return None
    seq, job_type, priority, status, *_ = row
    if status == Status.DEAD:
        tx.execute(SQL["discard"], (act.at, seq))
        add_change(tx, seq, "discard", act)
        tx.moved(job_type, priority, status, Status.DISCARDED)
    return status


State = tuple[int, str, int, str, str | None, str | None, str | None]


def _state(tx: Transaction, job_id: str) -> State | None:
    row: State | None = tx.execute(SQL["dead_letter"], (place_of(job_id), job_id)).fetchone()
    return row


def _exchange(tx: Transaction, seq: int, payload: bytes) -> bytes | None:
    """Put another payload in place; the one before, None where they are the same."""
    row = tx.execute(SQL["payload"], (seq,)).fetchone()
    before = bytes(row[0]) if row is not None and is_intact(*row) else DAMAGED
    tx.execute(SQL["replace_payload"], (seq, payload, crc32(payload)))
    return None if before == payload else before
