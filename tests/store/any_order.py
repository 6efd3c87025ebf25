"""A store beside a plain model of it: what is submitted, claimed, ended, cancelled and removed."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobqueued.model.change import Act, Replay
from jobqueued.model.control import Room
from jobqueued.model.job import (
    CANCELLABLE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Claimed,
    Job,
    Progress,
    Status,
)
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Ask, Retained, Settlement
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import KINDS, NOW, ending, lanes_in, new_job, remove

T = TypeVar("T")

WINDOW = 300
LEASE = 100
KEEP = Retained({str(status): 200 for status in TERMINAL}, idempotency_window=WINDOW)
TYPES = ("mail", "image")
types = st.sampled_from(TYPES)
chances = st.integers(0, 10**6)
Labels = dict[str, Any]
labels = st.sampled_from(
    [{}, {"key": "one"}, {"key": "two"}, {"key": "one", "tenant": "acme"}, {"tenant": "acme"}]
)


@dataclass
class Known:
    """What must be true of a job that was acknowledged."""

    job: Job
    status: Status
    run_at: int
    attempt: int = 0
    finished_at: int | None = None
    cancel_requested: bool = False
    failures: int = 0
    claimed: Claimed | None = None
    holder: str = "daemon"
    lease_expires_at: int | None = None
    progress: Progress | None = None
    payload: bytes = b"{}"
    expires_at: int | None = None
    changes: list[tuple[str, int, bytes | None]] = field(default_factory=list)
    """Of each the action, the attempts by then, and the payload before."""
    attempts: list[str] = field(default_factory=list)
    """How each ended."""
    logs: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.expires_at = self.job.expires_at

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def go(self, status: Status, now: int) -> None:
        assert status in TRANSITIONS[self.status], (self.status, status)
        self.status = status
        if status is not Status.PROCESSING:
            self.claimed = self.lease_expires_at = None
        self.finished_at = now if status in TERMINAL else None


class AnyOrder(RuleBasedStateMachine):
    """A store, and beside it a plain dictionary of what it has promised."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.known: dict[str, Known] = {}
        self.stale: list[Claimed] = []
        self.turn = 0
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "jobs.db"
        self.runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def open(self) -> None:
        self.store = self.run(SqliteStore.open(self.path, "normal"))
        self.beside = sqlite3.connect(self.path, isolation_level=None)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.beside.close()
            self.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def pick(self, chance: int) -> Known:
        jobs = list(self.known.values())
        return jobs[chance % len(jobs)]

    def held(self) -> list[Known]:
        return [each for each in self.known.values() if each.status is Status.PROCESSING]

    def held_by(self, holder: str) -> list[Known]:
        return [each for each in self.held() if each.holder == holder]

    @rule(
        job_type=types,
        priority=st.integers(3, 5),
        delay=st.sampled_from([0, 0, 50]),
        expires_in=st.sampled_from([None, None, 40]),
        once=st.sampled_from([None, None, "a", "b"]),
        labels=labels,
    )
    def submit(
        self, job_type: str, priority: int, delay: int, expires_in: int | None, once: str | None,
        labels: Labels,
    ) -> None:  # fmt: skip
        job = new_job(
            job_type, now=self.now, delay=delay, priority=priority, max_retries=20,
            payload=b"{}", idempotency_key=f"{job_type}-{once}" if once else None,
            expires_at=self.now + expires_in if expires_in else None, **labels,
        )  # fmt: skip
        [placed] = self.run(self.store.submit([job], batch_id=None, window=WINDOW))
        taken = self.holder_of(job)
        assert placed.replayed == (taken is not None)
        assert placed.job.id == (job.id if taken is None else taken.job.id)
        if taken is None:
            self.known[job.id] = Known(job, job.status, job.run_at)

    def holder_of(self, job: Job) -> Known | None:
        """The newest job with its idempotency key, unless it is over and its window too."""
        owner = (job.idempotency_key, job.tenant)
        same = [
            each
            for each in self.known.values()
            if job.idempotency_key and (each.job.idempotency_key, each.job.tenant) == owner
        ]
        if not same:
            return None
        newest = same[-1]
        over = newest.status in TERMINAL and newest.job.created_at + WINDOW <= self.now
        return None if over else newest

    @rule(milliseconds=st.sampled_from([1, 20, 60, 250]))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(
        workers=st.integers(1, 4),
        mail=st.integers(0, 6),
        image=st.integers(0, 6),
        holder=st.sampled_from(["daemon", "remote"]),
    )
    def claim(self, workers: int, mail: int, image: int, holder: str) -> None:
        rooms = {"mail": Room(mail, LEASE), "image": Room(image, LEASE)}
        rooms = {name: room for name, room in rooms.items() if self.is_ready(name)}
        names = [f"w{number}" for number in range(workers)]
        left = {name: max(0, room.most - self.running(name)) for name, room in rooms.items()}
        ask = Ask("p", names, rooms, self.turn, holder)
        found = self.run(self.store.claim([ask], self.now))
        self.turn += len(found)
        for claimed in found:
            known = self.known[claimed.lease.job_id]
            assert not known.expired(self.now)
            known.go(Status.PROCESSING, self.now)
            known.attempt, known.claimed = known.attempt + 1, claimed
            known.holder, known.lease_expires_at = holder, self.now + LEASE
            known.progress = None
            assert (claimed.job is not None) == (holder == "remote")
            assert claimed.lease.attempt == known.attempt
            assert (claimed.failures, claimed.losses) == (known.failures, 0)
            assert (claimed.payload, claimed.payload_intact) == (known.payload, True)
        self.check_room(found, left, workers)

    def is_ready(self, job_type: str) -> bool:
        """Whether jobs of a type may be claimed."""
        return True

    def can_go(self, known: Known) -> bool:
        """Whether a pending job may be claimed, as far as it has not expired."""
        return True

    def running(self, job_type: str) -> int:
        return sum(each.job.type == job_type for each in self.held())

    def check_room(self, found: list[Claimed], rooms: dict[str, int], workers: int) -> None:
        """Nobody got too much, and nobody idle was left without work there was."""
        assert len(found) <= workers
        for job_type, room in rooms.items():
            count = sum(claimed.type == job_type for claimed in found)
            assert count <= room
            left = [
                each.expired(self.now)
                for each in self.known.values()
                if (each.status, each.job.type) == (Status.PENDING, job_type) and self.can_go(each)
            ]
            # Expired jobs may hide others until they are noted as such.
            assert len(found) == workers or count == room or not left or any(left)

    @precondition(lambda self: self.held())
    @rule(chance=chances, status=st.sampled_from(sorted(KINDS)))
    def settle(self, chance: int, status: Status) -> None:
        held = self.held()
        known = held[chance % len(held)]
        settlement = self.ending_of(known, status)
        assert self.run(self.store.settle([settlement])) == [self.ended(known, settlement)]

    def ending_of(self, known: Known, status: Status) -> Settlement:
        assert known.claimed is not None
        return ending(known.claimed, status, at=self.now)

    def ended(self, known: Known, settlement: Settlement) -> Status:
        """Note the end of an attempt; the status its job has now."""
        assert known.claimed is not None
        wanted = settlement.next.status
        again = wanted in (Status.PENDING, Status.RETRYING)
        status = Status.CANCELLED if again and known.cancel_requested else wanted
        self.stale.append(known.claimed)
        known.attempts.append(settlement.outcome.kind)
        known.go(status, self.now)
        known.run_at = settlement.next.run_at or known.run_at
        known.failures = settlement.next.failures
        return status

    @precondition(lambda self: self.stale)
    @rule(chance=chances, status=st.sampled_from(sorted(KINDS)))
    def settle_too_late(self, chance: int, status: Status) -> None:
        lost = self.stale[chance % len(self.stale)]
        assert self.run(self.store.settle([ending(lost, status, at=self.now)])) == [None]
        assert self.run(self.store.extend([lost.lease], [self.now + 10**9])) == [False]
        before = self.run(self.store.log(lost.lease.job_id, lost.lease.attempt))
        self.run(self.store.keep_log(lost.lease, b"late"))
        assert self.run(self.store.log(lost.lease.job_id, lost.lease.attempt)) == before != b"late"
        assert not self.run(self.store.report_progress(lost.lease, Progress(1.0, "late")))

    @precondition(lambda self: self.known)
    @rule(chance=chances)
    def cancel(self, chance: int) -> None:
        known = self.pick(chance)
        assert self.run(self.store.cancel(known.job.id, self.now)) == known.status
        if known.status in WAITING:
            known.go(Status.CANCELLED, self.now)
        elif known.status is Status.PROCESSING:
            known.cancel_requested = True

    @rule(job_type=types, statuses=st.sets(st.sampled_from(sorted(CANCELLABLE)), min_size=1))
    def cancel_fitting(self, job_type: str, statuses: set[Status]) -> None:
        query = JobQuery(statuses=tuple(statuses), type=job_type, limit=1_000)
        fitting = {
            each.job.id: each
            for each in self.known.values()
            if each.job.type == job_type and each.status in statuses and not each.cancel_requested
        }
        found = self.run(self.store.find_to_cancel(query))
        assert sorted(found) == sorted(fitting)
        assert self.run(self.store.count_to_cancel(query, 1_000)) == len(found)
        before = self.run(self.store.cancel_many(found, statuses, self.now))
        assert before == [fitting[job_id].status for job_id in found]
        for known in fitting.values():
            if known.status is Status.PROCESSING:
                known.cancel_requested = True
            else:
                known.go(Status.CANCELLED, self.now)

    @precondition(lambda self: self.known)
    @rule(chance=chances)
    def run_now(self, chance: int) -> None:
        known = self.pick(chance)
        assert self.run(self.store.run_now(known.job.id, self.now)) == known.status
        if known.status in (Status.SCHEDULED, Status.RETRYING):
            known.go(Status.PENDING, self.now)
            known.run_at = self.now

    @precondition(lambda self: self.known)
    @rule(
        chance=chances,
        delay=st.sampled_from([0, 0, 50]),
        payload=st.sampled_from([None, b"{}", b"[1]", b"[2]"]),
    )
    def replay(self, chance: int, delay: int, payload: bytes | None) -> None:
        known = self.pick_dead(chance)
        wanted = Replay(known.job.id, self.now + delay, payload)
        [found] = self.run(self.store.replay([wanted], Act("ann", self.now, "again")))
        assert found is not None
        assert (found.status, found.newer is None) == (known.status, self.has_its_key(known))
        if found.replayed:
            self.replayed(known, wanted)

    def replayed(self, known: Known, wanted: Replay) -> None:
        known.go(Status.SCHEDULED if wanted.run_at > self.now else Status.PENDING, self.now)
        known.run_at, known.failures, known.cancel_requested = wanted.run_at, 0, False
        if known.expired(wanted.run_at):
            known.expires_at = None
        before = known.payload
        known.payload = before if wanted.payload is None else wanted.payload
        edited = known.payload != before
        known.changes.append(("replay", known.attempt, before if edited else None))

    def pick_dead(self, chance: int) -> Known:
        """A dead job, or now and then any other."""
        dead = [each for each in self.known.values() if each.status is Status.DEAD]
        return dead[chance % len(dead)] if dead and chance % 4 else self.pick(chance)

    def has_its_key(self, known: Known) -> bool:
        """Whether no newer job has the key of a dead one."""
        key = known.job.idempotency_key
        return known.status is not Status.DEAD or not any(
            each.job.idempotency_key == key and each.job.id > known.job.id
            for each in self.known.values()
            if key is not None
        )

    @rule(job_type=types, after=chances, most=st.integers(1, 5))
    def replay_many(self, job_type: str, after: int, most: int) -> None:
        """The oldest first, in one transaction."""
        start = self.pick(after).job.id if self.known and after % 2 else None
        dead = [
            each.job.id
            for each in self.known.values()
            if (each.status, each.job.type) == (Status.DEAD, job_type)
            and (start is None or each.job.id > start)
        ]
        ids = self.run(self.store.dead(job_type, start, most))
        assert ids == sorted(dead)[:most]
        wanted = [Replay(one, self.now) for one in ids]
        expected = [self.has_its_key(self.known[one]) for one in ids]
        found = self.run(self.store.replay(wanted, Act("ann", self.now)))
        assert [one is not None and one.replayed for one in found] == expected
        for one, is_replayed in zip(wanted, expected, strict=True):
            if is_replayed:
                self.replayed(self.known[one.job_id], one)

    @precondition(lambda self: self.known)
    @rule(chance=chances)
    def discard(self, chance: int) -> None:
        known = self.pick_dead(chance)
        act = Act("ann", self.now, "no use")
        assert self.run(self.store.discard(known.job.id, act)) == known.status
        if known.status is Status.DEAD:
            known.go(Status.DISCARDED, self.now)
            known.changes.append(("discard", known.attempt, None))

    @rule()
    def promote(self) -> None:
        due = [
            each
            for each in self.known.values()
            if each.status in (Status.SCHEDULED, Status.RETRYING) and each.run_at <= self.now
        ]
        assert self.run(self.store.promote(self.now)) == len(due)
        for known in due:
            known.go(Status.PENDING, self.now)

    @rule()
    def expire(self) -> None:
        over = {
            each.job.id
            for each in self.known.values()
            if each.status in WAITING and each.expired(self.now)
        }
        assert set(self.run(self.store.expire(self.now))) == over
        for job_id in over:
            self.known[job_id].go(Status.EXPIRED, self.now)

    @rule()
    def forget(self) -> None:
        gone = [each.job.id for each in self.known.values() if self.outlived(each)]
        assert self.run(remove(self.store, KEEP, self.now)) == len(gone)
        for job_id in gone:
            del self.known[job_id]
        following = self.run(self.store.next_outlived(KEEP))
        assert following is None or following > self.now

    def outlived(self, known: Known) -> bool:
        keep = WINDOW if known.job.idempotency_key else KEEP.keep["completed"]
        return known.finished_at is not None and known.finished_at + keep <= self.now

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.run(SqliteStore.open(self.path, "normal"))
        held = {each.lease for each in self.run(self.store.held_by_daemon())}
        assert held == {each.claimed.lease for each in self.held_by("daemon") if each.claimed}

    @invariant()
    def every_acknowledged_job_is_where_it_should_be(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.beside.execute(
            "SELECT id, status, attempt, failures, cancel_requested, expires_at, lease_token, "
            "run_at FROM jobs"
        )
        found = {row[0]: row[1:] for row in rows}
        assert found == {
            each.job.id: (
                each.status,
                each.attempt,
                each.failures,
                each.cancel_requested or each.status is Status.CANCELLED,
                each.expires_at,
                each.claimed.lease.token if each.claimed else None,
                each.run_at,
            )
            for each in self.known.values()
        }

    @invariant()
    def the_counts_are_right(self) -> None:
        if not hasattr(self, "store"):
            return
        kept, real = lanes_in(self.beside)
        assert kept == real
        by_type: dict[str, dict[str, int]] = {}
        for (job_type, status, _), count in real.items():
            of_type = by_type.setdefault(job_type, {})
            of_type[status] = of_type.get(status, 0) + count
        assert self.store.counts.by_type() == by_type
