"""The one writer: while a commit runs, the next group gathers."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jobqueued.clock import monotonic
from jobqueued.model.errors import DiskFull, StoreError, StoreLocked, StoreUnavailable
from jobqueued.model.job import Job, Status
from jobqueued.store.sqlite.claims import Taken, Wish, claim
from jobqueued.store.sqlite.connection import (
    SQLITE_ERRORS,
    Connection,
    cut_log,
    explain,
    is_busy,
    is_fatal,
    may_be_disk_full,
    no_space,
)
from jobqueued.store.sqlite.counts import Controls, Delta, JobCounts, KeyLimits, Transaction
from jobqueued.store.sqlite.files import Reserve
from jobqueued.store.sqlite.jobs import insert
from jobqueued.store.sqlite.keys import line_up
from jobqueued.store.sqlite.late_sync import LateSync
from jobqueued.store.sqlite.leases import Ending, settle

T = TypeVar("T")
log = logging.getLogger("jobqueued.store")

SHORTEST_LOG = 4 * 1024 * 1024
"""Bytes; a log longer than this is copied into the file each time it grows, and used again from
its start rather than cut, because syncing a file that grows costs double."""
LONGEST_LOG = 16 * 1024 * 1024
"""Bytes; a log that readers kept from being used again is cut when it has grown past this."""
_CUT_AGAIN_SECONDS = 1.0
_MAX_GROUP = 512
_FULL_RETRY_SECONDS = 0.5
_NOT_NOW = (DiskFull, StoreLocked)
"""Nothing was written, and it can be tried again."""


Work = Callable[[Transaction], Any] | Job | Sequence[Ending] | Wish
"""Something to do, a job to insert, attempts to end, or jobs to claim."""


class Call(msgspec.Struct):
    """One caller's write and where its answer goes."""

    work: Work
    essential: bool
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class Group:
    """What one trip to the writer's thread came to."""

    results: list[Any]
    delta: Delta
    controls: Controls
    disk_full: bool = False
    locked: bool = False
    fatal: StoreError | None = None
    log_bytes: int = 0


class Writer:
    """Runs writes in groups, one COMMIT a group, and answers each caller after it."""

    def __init__(
        self,
        connection: Connection,
        path: Path,
        counts: JobCounts,
        key_limits: KeyLimits,
        reserve: Reserve,
        durability: str,
    ) -> None:
        self.counts = counts.copy()
        self.key_limits = key_limits
        """As of the last commit; another mapping when they change, so both threads may look."""
        self.disk_full = not reserve.take()
        self.locked = False
        """Whether another program held the file when we last tried to write."""
        self.commits = 0
        self.commit_seconds = 0.0
        self.busy_since: float | None = None
        """Since when the present group is being written, for the watchdog."""
        self.failed: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._path = path
        self._wal = f"{path}-wal"
        late = LateSync(connection, Path(self._wal), self.fail)
        self._late_sync = None if durability == "full" else late
        self._wal_inode = _size_and_inode(self._wal)[1]
        self._cut_after = 0.0
        self._log_size = SHORTEST_LOG
        self.thread_counts = counts
        self._reserve = reserve
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Call] = deque()
        self._group: list[Call] = []
        self._arrived = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="writer")

    def add(self, job: Job) -> asyncio.Future[Job]:
        """Queue a new job; the future is done after its COMMIT. All of a group go in together."""
        return self._queue(job, essential=False)

    def settle(self, endings: Sequence[Ending]) -> asyncio.Future[list[Status | None]]:
        """Queue the end of attempts; those that come one after the other go in together."""
        return self._queue(endings, essential=True)

    def claim(self, wish: Wish) -> asyncio.Future[list[Taken]]:
        """Queue a claim; it goes last in its group, so that it finds what the others leave."""
        return self._queue(wish, essential=False)

    def write(self, work: Callable[[Transaction], T], *, essential: bool) -> asyncio.Future[T]:
        """Queue one write; the future is done after its COMMIT."""
        return self._queue(work, essential=essential)

    def _queue(self, work: Work, *, essential: bool) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closing or self.failed.done():
            answer.set_exception(StoreUnavailable("the store is closed"))
        elif self.disk_full and not essential:
            answer.set_exception(DiskFull("no space left on the disk; free some and try again"))
        else:
            self._waiting.append(Call(work, essential, answer))
            self._arrived.set()
        return answer

    async def close(self) -> None:
        """Write what is queued, then stop."""
        self._closing = True
        self._arrived.set()
        await self._task
        if self._late_sync is not None:
            await self._late_sync.close()

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception as error:
            log.exception("the writer failed")
            self.fail(StoreUnavailable(f"the writer failed: {error}"))

    async def _serve(self) -> None:
        while not self.failed.done():
            if not self._waiting:
                if self._closing:
                    return
                await self._idle()
                continue
            is_long = await self._connection.run(self._write_groups)
            if self.disk_full:
                await self._outlast_full_disk()
            elif is_long and not self.failed.done():
                await self._cut_log()

    async def _idle(self) -> None:
        self._arrived.clear()
        if self.disk_full:
            await self._outlast_full_disk()
        else:
            await self._arrived.wait()

    def _written(self, calls: list[Call], group: Group) -> None:
        """Back in the event loop: everybody of a group gets an answer."""
        self.counts.apply(group.delta, group.controls)
        if self._late_sync is not None:
            self._late_sync.written()
        self.locked = group.locked
        if group.disk_full:
            self._enter_full_disk()
        answers = list(zip(calls, group.results, strict=False))
        others = len(answers)
        while others and _is_claim(answers[others - 1][0]):
            others -= 1
        # Claims first: what they bring runs while the others hear of their end.
        for call, result in (*answers[others:], *answers[:others]):
            self._answer(call, result)
        if group.fatal is not None:
            self.fail(group.fatal)

    def _answer(self, call: Call, result: Any) -> None:
        if isinstance(result, _NOT_NOW) and call.essential and not self._closing:
            self._waiting.append(call)
        elif call.answer.done():
            return
        elif isinstance(result, Exception):
            call.answer.set_exception(result)
        else:
            call.answer.set_result(result)

    def fail(self, error: StoreError) -> None:
        """Nothing more is written: what is on disk shows after a restart."""
        if self.failed.done():
            return
        log.critical("store failed: %s", error)
        for call in (*self._group, *self._waiting):
            if not call.answer.done():
                call.answer.set_exception(error)
        self._waiting.clear()
        self.failed.set_result(error)

    def _enter_full_disk(self) -> None:
        if not self.disk_full:
            log.error("disk full: submissions are refused until there is space for %s", self._path)
        self.disk_full = True
        self._reserve.give_back()

    async def _outlast_full_disk(self) -> None:
        if self._reserve.regain():
            self.disk_full = False
            log.warning("disk has space again: submissions resume")
        elif not self._closing:
            try:
                async with asyncio.timeout(_FULL_RETRY_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                pass
            self._arrived.clear()

    def _write_groups(self, connection: sqlite3.Connection) -> bool:
        """In the thread: one group after the other; whether the log is too long in the end."""
        is_long = False
        while self._waiting and not is_long:
            number = min(len(self._waiting), _MAX_GROUP)
            calls = [self._waiting.popleft() for _ in range(number)]
            calls.sort(key=_is_claim)
            self._group = calls
            self.busy_since = began = monotonic()
            group = self._write(connection, calls)
            self.busy_since = None
            self.commits += 1
            self.commit_seconds += monotonic() - began
            self._loop.call_soon_threadsafe(self._written, calls, group)
            if group.fatal or group.disk_full or not self._copy_log(connection, group.log_bytes):
                break
            is_long = group.log_bytes >= LONGEST_LOG and began >= self._cut_after
        return is_long

    def _copy_log(self, connection: sqlite3.Connection, size: int) -> bool:
        """Copy the log into the file if it has grown; False when the disk failed."""
        if size <= self._log_size:
            return True
        self.busy_since = monotonic()
        try:
            connection.execute("PRAGMA wal_checkpoint").fetchall()
        except sqlite3.Error as error:
            told = self.explain(error)
            if is_fatal(error) and not isinstance(told, DiskFull):
                self._loop.call_soon_threadsafe(self.fail, told)
                return False
        finally:
            self.busy_since = None
        self._log_size = size
        return True

    def _write(self, connection: sqlite3.Connection, calls: list[Call]) -> Group:
        """Write a group, and make sure that it went where it is looked for."""
        group = self._commit(connection, calls)
        group.log_bytes, inode = _size_and_inode(self._wal)
        if self._wal_inode not in (0, inode):
            gone = StoreUnavailable(f"{self._wal} was deleted or replaced; restart")
            return Group([], {}, {}, fatal=gone)
        self._wal_inode = inode
        return group

    def _commit(self, connection: sqlite3.Connection, calls: list[Call]) -> Group:
        """All calls in one transaction, or each in its own when one is bad."""
        try:
            return self._transact(connection, calls)
        except Exception as error:
            _roll_back(connection)
            result = self.explain(error) if isinstance(error, SQLITE_ERRORS) else error
            full, locked = isinstance(result, DiskFull), is_busy(error)
            if isinstance(result, StoreError) and is_fatal(error) and not full:
                return Group([], {}, {}, fatal=result)
            if len(calls) == 1 or locked:
                return Group([result] * len(calls), {}, {}, full, locked)
        return self._one_by_one(connection, calls)

    def explain(self, error: Exception) -> StoreError:
        """SQLite's error as one of ours; a lack of space does not always call itself so.

        Where space was missing just now, it may be there again before anybody can look.
        """
        if may_be_disk_full(error) and (self.disk_full or self._reserve.is_out_of_reach()):
            return no_space(self._path)
        return explain(self._path, error)

    def _transact(self, connection: sqlite3.Connection, calls: list[Call]) -> Group:
        transaction = Transaction(connection, self.thread_counts, self.key_limits)
        connection.execute("BEGIN IMMEDIATE")
        new = [call.work for call in calls if isinstance(call.work, Job)]
        if new:
            insert(transaction, new)
        results = [
            result
            for kind, some in groupby((call.work for call in calls), _kind)
            for result in kind(transaction, list(some))
        ]
        line_up(transaction)
        transaction.finish()
        connection.execute("COMMIT")
        self.key_limits = transaction.key_limits
        self.thread_counts.apply(transaction.delta, transaction.controls)
        return Group(results, transaction.delta, transaction.controls)

    def _one_by_one(self, connection: sqlite3.Connection, calls: list[Call]) -> Group:
        whole = Group([], {}, {})
        for left, call in zip(range(len(calls))[::-1], calls, strict=True):
            single = self._commit(connection, [call])
            whole.results += single.results
            whole.disk_full |= single.disk_full
            whole.controls |= single.controls
            whole.fatal, whole.locked = single.fatal, single.locked
            for lane, change in single.delta.items():
                whole.delta[lane] = whole.delta.get(lane, 0) + change
            if single.fatal is not None:
                break
            if single.locked:
                whole.results += single.results * left  # Each would wait as long.
                break
        return whole

    async def _cut_log(self) -> None:
        try:
            done = await self._connection.run(cut_log)
        except sqlite3.Error as error:
            if is_fatal(error):
                return self.fail(explain(self._path, error))
            done = False
            log.warning("checkpoint put off: %s", error)
        if done:
            self._log_size = SHORTEST_LOG
        # A reader that is in the way is over soon.
        self._cut_after = 0.0 if done else monotonic() + _CUT_AGAIN_SECONDS


def _kind(work: Work) -> Callable[[Transaction, list[Any]], list[Any]]:
    """How works of the same kind that follow each other are done."""
    if isinstance(work, Job):
        return _inserted
    if isinstance(work, Wish):
        return _claim_all
    return _do_each if callable(work) else _settle_all


def _inserted(transaction: Transaction, jobs: list[Job]) -> list[Job]:
    """All new jobs of a group were inserted first."""
    return jobs


def _do_each(transaction: Transaction, works: list[Callable[[Transaction], Any]]) -> list[Any]:
    return [work(transaction) for work in works]


def _settle_all(
    transaction: Transaction, works: list[Sequence[Ending]]
) -> list[list[Status | None]]:
    statuses = iter(settle(transaction, list(chain.from_iterable(works))))
    return [list(islice(statuses, len(work))) for work in works]


def _claim_all(transaction: Transaction, wishes: list[Wish]) -> list[list[Taken]]:
    line_up(transaction)
    return claim(transaction, wishes)


def _is_claim(call: Call) -> bool:
    return isinstance(call.work, Wish)


def _size_and_inode(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_ino


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
