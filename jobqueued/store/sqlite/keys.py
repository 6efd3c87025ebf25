"""Lining up the jobs of a key: so many may run, the best of the others are next, the rest waits.

Of every key of a limited type, all that run and the best of those pending are in front, as many
together as may run at once; the other pending ones are held back, where no claim meets them. What
comes or goes is noted by `Transaction.touched`, and put right before anything is claimed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from jobqueued.model.ids import place_of
from jobqueued.store.interface import Key, KeyQueue
from jobqueued.store.sqlite.counts import KeyLimit, Transaction
from jobqueued.store.sqlite.queries import SQL

_AT_ONCE = 250
"""Jobs and keys that one transaction lines up anew."""
MOST_NAMED = 20
MOST_COUNTED = 1_000


def read_limits(connection: sqlite3.Connection) -> dict[str, KeyLimit]:
    """How each type's jobs are lined up; types that have no limit are left out."""
    rows = connection.execute(SQL["key_limits"]).fetchall()
    return {name: KeyLimit(most or None, bool(most)) for name, most in rows}


def line_up(tx: Transaction) -> None:
    """Put right the keys that were touched so far."""
    touched, tx.keys = tx.keys, {}
    for key, changes in touched.items():
        limit = tx.key_limits.get(key[0])
        if limit is not None and limit.most is not None:
            _line_up(tx, key, limit.most, changes)


def _line_up(tx: Transaction, key: Key, most: int, changes: int) -> int:
    """Put a key right in which no more than `changes` jobs came or went; how many were moved.

    Of one that was in any other order something is moved, and again until nothing is.
    """
    row = tx.execute(SQL["key_crowd"], (*key, most + changes)).fetchone()
    running, in_front, are_held_back = row
    room = max(0, most - running)
    surplus = max(0, in_front - room)
    if not surplus and not are_held_back:
        return 0
    lack = max(0, room - in_front)
    last = tx.execute(SQL["last_in_front"], (*key, surplus + changes)).fetchall()
    first = tx.execute(SQL["first_held_back"], (*key, lack + changes)).fetchall()
    order = sorted([*last, *first])
    places = len(last) - surplus + lack
    through = [(seq,) for _, _, seq, held_back in order[:places] if held_back]
    back = [(seq,) for _, _, seq, held_back in order[places:] if not held_back]
    tx.many("let_through", through)
    tx.many("hold_back", back)
    return len(through) + len(back)


def _release(tx: Transaction, key: Key) -> int:
    """Let through a bounded number of a key whose type has no limit any more; how many."""
    rows = tx.execute(SQL["first_held_back"], (*key, _AT_ONCE)).fetchall()
    tx.many("let_through", [(seq,) for _, _, seq, _ in rows])
    return len(rows)


def line_up_type(tx: Transaction, job_type: str, most: int | None, start: Key | None) -> Key | None:
    """Line up a bounded number of a type's jobs for another limit; where to go on.

    From the beginning with None, and over when the answer is None. What comes or goes meanwhile
    keeps to the new limit already; what is claimed meanwhile may not.
    """
    key = _begin(tx, job_type, most) if start is None else start
    left = _AT_ONCE
    while key is not None and left > 0:
        moved = _release(tx, key) if most is None else _line_up(tx, key, most, _AT_ONCE)
        left -= 1 + moved
        if not moved:
            key = _following(tx, key)
    if key is None:
        _end(tx, job_type, most)
    return key


def _begin(tx: Transaction, job_type: str, most: int | None) -> Key | None:
    """The first key; a crash before the end begins again, whatever the limit is by then."""
    tx.execute(SQL["put_key_limit"], (job_type, 0))
    tx.key_limits = {**tx.key_limits, job_type: KeyLimit(most, False)}
    first: Key | None = tx.execute(SQL["first_key"], (job_type,)).fetchone()
    return first


def _end(tx: Transaction, job_type: str, most: int | None) -> None:
    if most is None:
        tx.execute(SQL["delete_key_limit"], (job_type,))
        tx.key_limits = {name: one for name, one in tx.key_limits.items() if name != job_type}
    else:
        tx.execute(SQL["put_key_limit"], (job_type, most))
        tx.key_limits = {**tx.key_limits, job_type: KeyLimit(most, True)}


def _following(tx: Transaction, key: Key) -> Key | None:
    """The key after this one; the jobs between are never walked."""
    following: Key | None = tx.execute(SQL["next_key"], key).fetchone()
    return following or tx.execute(SQL["next_tenants_key"], key[:2]).fetchone()


def is_lined_up(limits: Mapping[str, KeyLimit], job_type: str, most: int | None) -> bool:
    """Whether a type's jobs are in line for that limit, and not on the way to another."""
    limit = limits.get(job_type)
    return most is None if limit is None else limit == (most, True)


def read_key_queue(connection: sqlite3.Connection, job_id: str) -> KeyQueue | None:
    """Whom of its key a job waits for; None where it is not held back."""
    row = connection.execute(SQL["held_back_job"], (place_of(job_id), job_id)).fetchone()
    if row is None:
        return None
    running = connection.execute(SQL["running_of_key"], row[:3]).fetchall()
    values = (*row, MOST_COUNTED + 1)
    ahead = connection.execute(SQL["ahead_in_key"], values).fetchone()[0]
    ids = tuple(found[0] for found in running[:MOST_NAMED])
    return KeyQueue(
        key=row[2], running=len(running), running_ids=ids, ahead=min(ahead, MOST_COUNTED),
        more=ahead > MOST_COUNTED,
    )  # fmt: skip
