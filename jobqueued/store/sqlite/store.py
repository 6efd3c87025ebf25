"""The SQLite store: opens the file, owns the writer and the readers, and offers the verbs."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from jobqueued.model.change import Act, Change, Found, Replay
from jobqueued.model.control import Control
from jobqueued.model.errors import DiskFull, KeyReused, StoreError
from jobqueued.model.job import (
    CANCELLABLE,
    Attempt,
    Batch,
    Claimed,
    Held,
    Job,
    Lease,
    Progress,
    Status,
)
from jobqueued.model.submission import JobPage, JobQuery, Submitted
from jobqueued.store.interface import (
    Ask,
    Cleared,
    Counted,
    Holdings,
    Key,
    Retained,
    Settlement,
    Standing,
)
from jobqueued.store.sqlite import (
    cancel,
    changes,
    controls,
    dead,
    due,
    jobs,
    keys,
    leases,
    retention,
    standing,
)
from jobqueued.store.sqlite.claims import Wish, claimed
from jobqueued.store.sqlite.connection import (
    SQLITE_ERRORS,
    Connection,
    Readers,
    connect,
    explain,
    is_fatal,
    open_reader,
    open_writer,
)
from jobqueued.store.sqlite.counts import JobCounts, Transaction
from jobqueued.store.sqlite.files import Reserve
from jobqueued.store.sqlite.migrate import check_before_opening, migrate, shipped_migrations
from jobqueued.store.sqlite.queries import SQL
from jobqueued.store.sqlite.writer import Writer

T = TypeVar("T")
log = logging.getLogger("jobqueued.store")

_READERS = 3
"""One of them for the engine alone."""
_MANY = 500
"""Rows one verb touches at most, so that no transaction holds up the others for long."""


class SqliteStore:
    """All of the Store interface over one file; the caller holds the instance lock."""

    def __init__(
        self, path: Path, durability: str, connection: Connection, writer: Writer,
        readers: list[Connection],
        last_place: int,
    ) -> None:  # fmt: skip
        self.path = path
        self.durability = durability
        self.writer = writer
        self.last_place = last_place
        self._connection = connection
        self._readers = Readers(readers[1:])
        self._own_reader = Readers(readers[:1])
        self._closed = False

    @classmethod
    async def open(cls, path: Path, durability: str = "full") -> SqliteStore:
        """Check, migrate and open; raises StoreError with what to do."""
        scripts = shipped_migrations()
        Reserve(path).make_room()
        await asyncio.to_thread(check_before_opening, path, len(scripts))
        async with AsyncExitStack() as opened:
            try:
                store = await cls._start(path, durability, scripts, opened)
            except SQLITE_ERRORS as error:
                raise explain(path, error) from error
            opened.pop_all()
        return store

    @classmethod
    async def _start(
        cls, path: Path, durability: str, scripts: Sequence[str], opened: AsyncExitStack
    ) -> SqliteStore:
        connection = await connect(partial(open_writer, path, durability))
        opened.push_async_callback(connection.close)
        backup = await connection.run(migrate, path, scripts)
        if backup is not None:
            log.warning("schema migrated to %d; the old file is kept as %s", len(scripts), backup)
        counts = await connection.run(JobCounts.read)
        key_limits = await connection.run(keys.read_limits)
        last_place = await connection.run(lambda c: int(c.execute(SQL["last_seq"]).fetchone()[0]))
        readers = []
        for _ in range(_READERS):
            readers.append(await connect(partial(open_reader, path)))
            opened.push_async_callback(readers[-1].close)
        writer = Writer(connection, path, counts, key_limits, Reserve(path), durability)
        return cls(path, durability, connection, writer, readers, last_place)

    @property
    def counts(self) -> JobCounts:
        return self.writer.counts

    @property
    def controls(self) -> Mapping[str, Control]:
        return self.counts.controls

    @property
    def disk_full(self) -> bool:
        return self.writer.disk_full

    @property
    def locked(self) -> bool:
        return self.writer.locked

    @property
    def failed(self) -> asyncio.Future[StoreError]:
        """Done when the store has stopped because what is on disk is no longer known."""
        return self.writer.failed

    @property
    def busy_since(self) -> float | None:
        return self.writer.busy_since

    @property
    def commits(self) -> int:
        return self.writer.commits

    def figures(self) -> dict[str, object]:
        """Sizes, durability and commits, for `jobqueued status`."""
        wal = self.path.with_name(self.path.name + "-wal")
        return {
            "bytes": self.path.stat().st_size,
            "wal_bytes": wal.stat().st_size if wal.exists() else 0,
            "durability": self.durability,
            "commits": self.writer.commits,
        }

    def _write(
        self, work: Callable[[Transaction], T], *, essential: bool = True
    ) -> asyncio.Future[T]:
        return self.writer.write(work, essential=essential)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._read_through(self._readers, work)

    async def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read for the engine, which does not queue up behind callers."""
        return await self._read_through(self._own_reader, work)

    async def _read_through(self, readers: Readers, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await readers.run(work)
        except SQLITE_ERRORS as error:
            told = self.writer.explain(error)
            if is_fatal(error) and not isinstance(told, DiskFull):
                self.writer.fail(told)
            raise told from error

    async def submit(
        self, new: Sequence[Job], *, batch_id: str | None, window: int
    ) -> list[Submitted]:
        if batch_id is None and len(new) == 1 and new[0].idempotency_key is None:
            return [Submitted(await self.writer.add(new[0]), False)]
        placed = await self._write(
            lambda tx: jobs.submit(tx, new, batch_id, window), essential=False
        )
        if isinstance(placed, KeyReused):
            raise placed
        return placed

    async def job(self, job_id: str) -> Job | None:
        return await self._read(lambda c: jobs.read_job(c, job_id))

    async def jobs(self, query: JobQuery) -> JobPage:
        counts = self.counts.by_status()
        return await self._read(lambda c: jobs.list_jobs(c, query, counts))

    async def batch(self, batch_id: str) -> Batch | None:
        return await self._read(lambda c: jobs.read_batch(c, batch_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        return await self._read(lambda c: jobs.read_attempts(c, job_id))

    async def log(self, job_id: str, attempt: int) -> bytes | None:
        return await self._read(lambda c: jobs.read_log(c, job_id, attempt))

    async def cancel(self, job_id: str, now: int) -> str | None:
        return (await self.cancel_many([job_id], CANCELLABLE, now))[0]

    async def cancel_many(
        self, job_ids: Sequence[str], statuses: Collection[str], now: int
    ) -> list[str | None]:
        return await self._write(
            lambda tx: cancel.cancel(tx, job_ids, statuses, now), essential=False
        )

    async def find_to_cancel(self, query: JobQuery) -> list[str]:
        narrow = cancel.narrowed(query, self.counts)
        return await self._read(lambda c: cancel.find(c, narrow))

    async def count_to_cancel(self, query: JobQuery, most: int) -> int:
        narrow = cancel.narrowed(query, self.counts)
        return await self._read(lambda c: cancel.count(c, narrow, most))

    async def run_now(self, job_id: str, now: int) -> str | None:
        return await self._write(lambda tx: jobs.run_now(tx, job_id, now), essential=False)

    async def dead(self, job_type: str, after: str | None, limit: int) -> list[str]:
        return await self._read(lambda c: dead.read_dead(c, job_type, after, limit))

    async def replay(self, replays: Sequence[Replay], act: Act) -> list[Found | None]:
        return await self._write(
            lambda tx: [dead.replay(tx, one, act) for one in replays], essential=False
        )

    async def discard(self, job_id: str, act: Act) -> str | None:
        return await self._write(lambda tx: dead.discard(tx, job_id, act), essential=False)

    async def changes(self, job_id: str) -> list[Change]:
        return await self._read(lambda c: changes.read_changes(c, job_id))

    async def claim(self, asks: Sequence[Ask], now: int) -> list[Claimed]:
        return [claimed(taken) for taken in await self.writer.claim(Wish(asks, now))]

    async def pause(self, job_type: str, by: str, note: str | None, now: int) -> None:
        await self._write(lambda tx: controls.pause(tx, job_type, by, note, now), essential=False)

    async def resume(self, job_type: str) -> None:
        await self._write(lambda tx: controls.resume(tx, job_type), essential=False)

    async def open_breaker(self, job_type: str, reason: str, now: int, probe_at: int) -> bool:
        return await self._write(
            lambda tx: controls.open_breaker(tx, job_type, reason, now, probe_at)
        )

    async def close_breaker(self, job_type: str, since: int) -> bool:
        return await self._write(lambda tx: controls.close_breaker(tx, job_type, since))

    async def follow_clock(self, now: int) -> None:
        await self._write(lambda tx: controls.follow_clock(tx, now), essential=False)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Status | None]:
        return await self.writer.settle([leases.ending(one) for one in settlements])

    async def line_up(self, job_type: str, most: int | None, start: Key | None) -> Key | None:
        return await self._write(
            lambda tx: keys.line_up_type(tx, job_type, most, start), essential=False
        )

    def is_lined_up(self, job_type: str, most: int | None) -> bool:
        return keys.is_lined_up(self.writer.key_limits, job_type, most)

    async def standing(self, job_id: str, asks: Sequence[Ask], now: int) -> Standing | None:
        counts = self.counts.copy()
        counts.damaged = set(self.writer.thread_counts.damaged)
        wish = Wish(asks, now)
        return await self._read(lambda c: standing.read_standing(c, job_id, wish, counts))

    async def in_front(self, job_type: str) -> Counted:
        return await self._read(lambda c: standing.read_in_front(c, job_type))

    async def extend(self, held: Sequence[Lease], expires_at: Sequence[int]) -> list[bool]:
        return await self._write(lambda tx: leases.extend(tx, held, expires_at))

    async def report_progress(self, lease: Lease, progress: Progress) -> bool:
        return await self._write(
            lambda tx: leases.report_progress(tx, lease, progress), essential=False
        )

    async def keep_log(self, lease: Lease, output: bytes) -> None:
        await self._write(lambda tx: leases.keep_log(tx, lease, output), essential=False)

    async def held_by_daemon(self) -> list[Held]:
        return await self._look(leases.read_held)

    async def held_under(self, tokens: Sequence[str]) -> list[Held | None]:
        return await self._read(lambda c: leases.read_held_under(c, tokens))

    async def expired_leases(self, now: int) -> list[Held]:
        return await self._look(lambda c: leases.read_expired(c, now, _MANY))

    async def next_lease_expiry(self) -> int | None:
        return await self._look(lambda c: _one(c, "next_lease_expiry"))

    async def promote(self, now: int) -> int:
        return await self._write(lambda tx: due.promote(tx, now, _MANY), essential=False)

    async def expire(self, now: int) -> list[str]:
        return await self._write(lambda tx: due.expire(tx, now, _MANY), essential=False)

    async def next_due(self) -> int | None:
        return await self._look(due.next_due)

    async def remove_outlived(self, retained: Retained, now: int, most: int) -> Cleared:
        return await self._write(
            lambda tx: retention.remove_outlived(tx, retained, now, most), essential=False
        )

    async def give_back_space(self, seconds: float) -> Cleared:
        return await self._write(lambda tx: retention.give_back_space(tx, seconds), essential=False)

    async def next_outlived(self, retained: Retained) -> int | None:
        return await self._look(lambda c: retention.next_outlived(c, retained))

    async def holdings(self, retained: Retained) -> Holdings:
        return await self._read(lambda c: retention.holdings(c, retained))

    async def oldest_pending(self) -> int | None:
        lanes = list(self.counts.pending_lanes())
        return await self._read(lambda c: jobs.oldest_pending(c, lanes)) if lanes else None

    async def close(self) -> None:
        """Readers first, so that the writer's close is the one that checkpoints."""
        if self._closed:
            return
        self._closed = True
        await self.writer.close()
        await self._readers.close()
        await self._own_reader.close()
        await self._copy_log()
        await self._connection.close()

    async def _copy_log(self) -> None:
        """What closing would do by itself, without a word when the disk fails."""
        if self.failed.done():
            return
        try:
            await self._connection.run(lambda c: c.execute("PRAGMA wal_checkpoint").fetchall())
        except sqlite3.Error as error:
            log.warning("checkpoint left to the next start: %s", error)
            if is_fatal(error):
                self.writer.fail(explain(self.path, error))


def _one(connection: sqlite3.Connection, name: str) -> int | None:
    value: int | None = connection.execute(SQL[name]).fetchone()[0]
    return value
