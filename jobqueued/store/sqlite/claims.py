"""Which pending jobs go next, and taking them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, NamedTuple

from jobqueued.model.errors import DamagedDatabase
from jobqueued.model.job import Claimed, Job, Lease, Status
from jobqueued.store.interface import Ask
from jobqueued.store.sqlite.controls import charge, room_left
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.jobs import is_intact, read_jobs_at
from jobqueued.store.sqlite.queries import SQL

GUARD_EVERY = 10
"""One claim in so many goes to the job that waits longest of those below the best priority."""

_SECRET_BYTES = 16
NO_PAYLOAD = (b"", None)

Head = tuple[int, int]
"""seq and run_at"""


class Wish(NamedTuple):
    """The asks of one caller, and when it asked."""

    asks: Sequence[Ask]
    now: int


class Chosen(NamedTuple):
    """A job that goes next, and the worker it goes to."""

    seq: int
    type: str
    priority: int
    worker: str
    ask: Ask
    now: int


class Taken(NamedTuple):
    """A job that was claimed, as its rows say."""

    chosen: Chosen
    row: tuple[Any, ...]
    payload: tuple[Any, ...]
    whole: Mapping[str, Job]


class Lanes:
    """The heads of the queues one ask may take from: a lane is one type at one priority."""

    def __init__(self, tx: Transaction, ask: Ask, now: int, taken: Set[int]) -> None:
        self._tx = tx
        self._limit = len(ask.workers)
        left = {name: room_left(tx, name, room, now) for name, room in ask.rooms.items()}
        self._room = {name: count for name, count in left.items() if count > 0}
        self._running = {name: tx.running(name) for name in self._room}
        self._passed_over = tx.counts.damaged | taken
        self._now = now
        self._heads: dict[tuple[int, str], list[Head] | None] = {}
        for job_type, priority in tx.counts.pending_lanes():
            if job_type in self._room and tx.pending(job_type, priority) > 0:
                self._heads[priority, job_type] = None

    def take(self, *, oldest: bool) -> tuple[str, int, Head] | None:
        """The next job: best priority, then fewest running, then longest waiting.

        With `oldest` the longest waiting of lower priority, where there is one.
        """
        while lane := self._choose(oldest):
            heads = self._fetch(lane)
            if heads:
                return lane[1], lane[0], heads.pop(0)
            del self._heads[lane]
        return None

    def started(self, job_type: str) -> None:
        self._running[job_type] += 1
        self._room[job_type] -= 1
        if self._room[job_type] == 0:
            self._heads = {lane: h for lane, h in self._heads.items() if lane[1] != job_type}

    def _choose(self, oldest: bool) -> tuple[int, str] | None:
        if not self._heads:
            return None
        best = max(priority for priority, _ in self._heads)
        # What goes next anyway gets no share of this: its backlog may be older than all the rest.
        below = [lane for lane in self._heads if oldest and lane[0] < best]
        if below:
            return min(below, key=self._since)
        equals = [lane for lane in self._heads if lane[0] == best]
        if len(equals) == 1:
            return equals[0]
        return min(equals, key=lambda lane: (self._running[lane[1]], self._since(lane)))

    def _since(self, lane: tuple[int, str]) -> tuple[int, int]:
        heads = self._fetch(lane)
        return (heads[0][1], heads[0][0]) if heads else (-1, -1)

    def _is_claimable(self, seq: int, _: int, expires_at: int | None) -> bool:
        return (expires_at is None or expires_at > self._now) and seq not in self._passed_over

    def _fetch(self, lane: tuple[int, str]) -> list[Head]:
        """The jobs at the head of a lane; those that have expired are the promoter's affair."""
        heads = self._heads[lane]
        if heads is None:
            values = (lane[1], lane[0], self._limit + len(self._passed_over))
            rows = self._tx.execute(SQL["lane_heads"], values).fetchall()
            heads = [row[:2] for row in rows if self._is_claimable(*row)]
            self._heads[lane] = heads
        return heads


def claim(tx: Transaction, wishes: Sequence[Wish]) -> list[list[Taken]]:
    """Hand jobs to the idle workers of every asking pool; what each wish came to."""
    chosen: list[Chosen] = []
    ends = []
    for wish in wishes:
        chosen += choose(tx, wish, chosen)
        ends.append(len(chosen))
    taken = _start(tx, chosen) if chosen else []
    return [taken[start:end] for start, end in pairwise([0, *ends])]


def choose(tx: Transaction, wish: Wish, before: Sequence[Chosen] = ()) -> list[Chosen]:
    """The jobs that go next; nothing is written yet."""
    chosen: list[Chosen] = []
    now = max(wish.now, tx.latest)
    for ask in wish.asks:
        chosen += _choose(tx, ask, now, {one.seq for one in (*before, *chosen)})
    return chosen


def _choose(tx: Transaction, ask: Ask, now: int, taken: Set[int]) -> list[Chosen]:
    lanes = Lanes(tx, ask, now, taken)
    chosen = []
    for number, worker in enumerate(ask.workers):
        oldest = (ask.turn + number) % GUARD_EVERY == GUARD_EVERY - 1
        lane = lanes.take(oldest=oldest)
        if lane is None:
            break
        job_type, priority, head = lane
        lanes.started(job_type)
        tx.moved(job_type, priority, Status.PENDING, Status.PROCESSING)
        chosen.append(Chosen(head[0], job_type, priority, worker, ask, now))
    charge(tx, ask.rooms, Counter(one.type for one in chosen), now)
    return chosen


def _start(tx: Transaction, chosen: Sequence[Chosen]) -> list[Taken]:
    secret = secrets.token_hex(_SECRET_BYTES * len(chosen))
    rows = [
        (
            one.seq, one.now, one.worker, one.ask.holder,
            secret[2 * _SECRET_BYTES * number :][: 2 * _SECRET_BYTES],
            one.now + one.ask.rooms[one.type].lease,
        )
        for number, one in enumerate(chosen)
    ]  # fmt: skip
    started = {row[0]: row[1:] for row in tx.many("claim", rows)}
    if len(started) < len(chosen):
        tx.counts.damaged.update(one.seq for one in chosen if one.seq not in started)
        raise DamagedDatabase("a waiting job is damaged on disk, it stays: run `jobqueued doctor`")
    payloads = {row[0]: row[1:] for row in tx.many("payloads", [(one.seq,) for one in chosen])}
    elsewhere = [(one.seq,) for one in chosen if one.ask.holder == "remote"]
    whole = read_jobs_at(tx, elsewhere) if elsewhere else {}
    return [
        Taken(one, started[one.seq], payloads.get(one.seq, NO_PAYLOAD), whole) for one in chosen
    ]


def claimed(taken: Taken) -> Claimed:
    """The job as the engine gets it; made outside of the writer's thread, which has no time."""
    chosen = taken.chosen
    job_id, attempt, token, max_retries, failures, losses, created_at, *labels = taken.row
    correlation_id, key, tenant = labels
    payload, checksum = taken.payload
    return Claimed(
        lease=Lease(job_id, attempt, token), type=chosen.type, payload=payload,
        payload_intact=is_intact(payload, checksum), priority=chosen.priority,
        max_retries=max_retries, failures=failures, losses=losses, created_at=created_at,
        started_at=chosen.now, correlation_id=correlation_id, key=key, tenant=tenant,
        pool=chosen.ask.pool, worker=chosen.worker, job=taken.whole.get(job_id),
    )  # fmt: skip
