"""Pauses, breakers and what rates have spent: kept in memory, written when they change."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from jobqueued.model.control import Room
from jobqueued.store.sqlite.counts import Transaction

_CLOSED = {"breaker_since": None, "breaker_probe_at": None, "breaker_reason": None}


def room_left(tx: Transaction, job_type: str, room: Room, now: int) -> int:
    """How many more jobs of a type may start, after all that this transaction has done."""
    return tx.control(job_type).left(room, tx.running(job_type), now)


def charge(tx: Transaction, rooms: Mapping[str, Room], jobs: Mapping[str, int], now: int) -> None:
    """Charge types for jobs that start in this transaction."""
    for job_type, number in jobs.items():
        tx.put_control(job_type, tx.control(job_type).started(rooms[job_type], number, now))


def pause(tx: Transaction, job_type: str, by: str, note: str | None, now: int) -> None:
    """Start no more jobs of a type; a pause that holds already stays, with a newer note."""
    if tx.control(job_type).paused_at is None:
        _change(tx, job_type, paused_at=now, paused_by=by, paused_note=note)
    elif note is not None:
        _change(tx, job_type, paused_by=by, paused_note=note)


def resume(tx: Transaction, job_type: str) -> None:
    """Start jobs of a type again."""
    _change(tx, job_type, paused_at=None, paused_by=None, paused_note=None)


def open_breaker(tx: Transaction, job_type: str, reason: str, now: int, probe_at: int) -> bool:
    """Start no more of a type than a probe; False where its breaker is open already."""
    if tx.control(job_type).breaker_since is not None:
        return False
    _change(tx, job_type, breaker_since=now, breaker_probe_at=probe_at, breaker_reason=reason)
    return True


def close_breaker(tx: Transaction, job_type: str, since: int) -> bool:
    """Start all jobs of a type again; False where it is not that opening any more."""
    if tx.control(job_type).breaker_since != since:
        return False
    _change(tx, job_type, **_CLOSED)
    return True


def follow_clock(tx: Transaction, now: int) -> None:
    """Let nobody wait for what is yet to come again."""
    for job_type in {**tx.counts.controls, **tx.controls}:
        control = tx.control(job_type)
        if control.is_ahead(now):
            tx.put_control(job_type, control.set_back(now))


def _change(tx: Transaction, job_type: str, **fields: object) -> None:
    tx.put_control(job_type, msgspec.structs.replace(tx.control(job_type), **fields))
