"""The command line of jobqueued with a fault built in, put there from outside.

`faulty.py serve --config FILE`. In the environment:
FAULT_POINT      where the process kills itself, one of `POINTS`
FAULT_COUNT      at which time of passing that point
FAULT_PAUSE      seconds that it waits there first
FAULT_MUTANT     a promise of the daemon that is broken, one of `MUTANTS`
FAULT_SCHEMAS    so many migrations more than there are
FAULT_TASKS      the file that SIGUSR2 makes it write the number of its tasks to

What is wrapped is looked up by name, so that a name that is gone stops the start.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jobqueued import daemon
from jobqueued.cli.main import main
from jobqueued.engine.attempt import Attempts
from jobqueued.executors.launcher_link import LauncherLink
from jobqueued.model.job import Job, Lease
from jobqueued.model.rate import Rate
from jobqueued.store.sqlite import claims, keys, leases, store, writer
from jobqueued.store.sqlite.counts import Transaction
from jobqueued.store.sqlite.queries import SQL

SMALL_LOG = 100_000
"""Bytes after which the log is cut, so that it happens often."""
LONGEST_CHECKPOINT = 0.003
MORE = (
    "CREATE TABLE extra (seq INTEGER);\n"
    "INSERT INTO extra SELECT seq FROM jobs;\n"
    "DROP TABLE extra;\n"
)
"""A migration that changes nothing in the end."""
ROOM = 100
STAGES = ("refuse", "hold", "drain", "terminate", "kill", "flush", "close", "end")

Wrapper = Callable[[Any], Any]


class Point:
    """A place in the code where the process dies, the Nth time it comes there."""

    def __init__(self) -> None:
        self._left = int(os.environ.get("FAULT_COUNT", "1"))
        self._pause = float(os.environ.get("FAULT_PAUSE", "0"))

    def is_due(self) -> bool:
        self._left -= 1
        return self._left == 0

    def reached(self) -> None:
        if self.is_due():
            time.sleep(self._pause)
            os.kill(os.getpid(), signal.SIGKILL)


def wrap(owner: Any, name: str, wrapper: Wrapper) -> None:
    """Replace a function by one around it; raises when it is not there."""
    setattr(owner, name, wrapper(getattr(owner, name)))


class Watched(sqlite3.Connection):
    """A connection that says which statements a transaction has executed, around its COMMIT."""

    before: Callable[[list[str]], None] | None = None
    after: Callable[[list[str]], None] | None = None
    each: Callable[[], None] | None = None
    """While a migration runs: before each statement."""
    done: list[str]

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if self.each is not None:
            self.each()
        if statement.startswith("BEGIN"):
            self.done = []
        elif statement != "COMMIT":
            self.__dict__.setdefault("done", []).append(statement)
            return super().execute(statement, *values)
        elif Watched.before is not None:
            Watched.before(self.done)
        cursor = super().execute(statement, *values)
        if statement == "COMMIT" and Watched.after is not None:
            Watched.after(self.done)
        return cursor


def watch_connections() -> None:
    wrap(sqlite3, "connect", lambda original: partial(original, factory=Watched))


def at_commit(point: Point, query: str, *, after: bool) -> None:
    """Die before or after the COMMIT of a transaction that has executed this query."""
    start = SQL[query].partition("VALUES")[0]

    def look(done: list[str]) -> None:
        if any(statement.startswith(start) for statement in done):
            point.reached()

    watch_connections()
    setattr(Watched, "after" if after else "before", staticmethod(look))


def after_call(point: Point, owner: Any, name: str) -> None:
    """Die when a coroutine function has returned."""

    def around(original: Any) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            result = await original(*arguments, **named)
            point.reached()
            return result

        return call

    wrap(owner, name, around)


def in_checkpoint(point: Point) -> None:
    """Die at any moment of a checkpoint, which another thread is needed for."""

    def around(original: Any) -> Any:
        def cut(connection: sqlite3.Connection) -> Any:
            if point.is_due():
                moment = random.uniform(0, LONGEST_CHECKPOINT)
                threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return original(connection)

        return cut

    wrap(writer, "LONGEST_LOG", lambda _: SMALL_LOG)
    wrap(writer, "cut_log", around)


def in_migration(point: Point) -> None:
    """Die before the Nth statement of a migration, or after the last."""

    def around(original: Any) -> Any:
        def migrate(connection: Watched, *arguments: Any) -> Any:
            connection.each = point.reached
            result = original(connection, *arguments)
            point.reached()
            connection.each = None
            return result

        return migrate

    watch_connections()
    wrap(store, "migrate", around)


def in_stage(wanted: str, point: Point) -> None:
    """Die when a shutdown stage begins."""

    def around(original: Any) -> Any:
        def stage(self: daemon.Daemon, name: str, text: str) -> None:
            original(self, name, text)
            if name == wanted:
                point.reached()

        return stage

    wrap(daemon.Daemon, "_stage", around)


POINTS: dict[str, Callable[[Point], None]] = {
    "after INSERT, before COMMIT": partial(at_commit, query="insert_job", after=False),
    "after COMMIT, before the answer": partial(at_commit, query="insert_job", after=True),
    "after a claim": partial(at_commit, query="claim", after=True),
    "after a spawn": partial(after_call, owner=LauncherLink, name="start"),
    "after an exit, before the outcome": partial(after_call, owner=Attempts, name="_outcome"),
    "after the COMMIT of an outcome": partial(at_commit, query="settle", after=True),
    "during a checkpoint": in_checkpoint,
    "during a migration": in_migration,
    **{f"in the shutdown stage {stage}": partial(in_stage, stage) for stage in STAGES},
}


def answer_before_commit() -> None:
    """Tell a client that its job is stored when it is only queued."""

    def around(original: Any) -> Any:
        def queue(self: Any, work: Any, *, essential: bool) -> asyncio.Future[Any]:
            real: asyncio.Future[Any] = original(self, work, essential=essential)
            if not isinstance(work, Job):
                return real
            early: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            early.set_result(work)
            return early

        return queue

    wrap(writer.Writer, "_queue", around)


def without_fencing() -> None:
    """Let anybody end an attempt, whoever holds the lease."""

    def settle_any(original: Any) -> Any:
        def settle(tx: Transaction, endings: list[leases.Ending]) -> Any:
            return original(tx, [under_current_lease(tx, one) for one in endings])

        return settle

    def hold_any(original: Any) -> Any:
        def read_held_under(connection: sqlite3.Connection, tokens: list[str]) -> Any:
            leases = [current_lease(connection.execute, token.split(".")[0]) for token in tokens]
            return original(connection, [lease.token if lease else "" for lease in leases])

        return read_held_under

    wrap(writer, "settle", settle_any)
    wrap(leases, "read_held_under", hold_any)


def under_current_lease(tx: Transaction, ending: leases.Ending) -> leases.Ending:
    """The same end, of whichever attempt the job is in now."""
    row = tx.execute("SELECT id FROM jobs WHERE seq = ?", (ending.key[0],)).fetchone()
    lease = None if row is None else current_lease(tx.execute, row[0])
    if lease is None:
        return ending
    seq, _, *rest = ending.job
    return ending._replace(key=(ending.key[0], lease.attempt), job=(seq, lease.token, *rest))


def current_lease(execute: Callable[..., sqlite3.Cursor], job_id: str) -> Lease | None:
    """The lease that a job is held under now."""
    query = "SELECT attempt, lease_token FROM jobs WHERE id = ? AND status = 'processing'"
    row = execute(query, (job_id,)).fetchone()
    return None if row is None else Lease(job_id, *row)


def without_limits() -> None:
    """Claim as if there were room for everything, of every type and every key, at any rate."""
    wrap(claims, "room_left", lambda _: lambda *_: ROOM)
    wrap(Rate, "tokens", lambda _: lambda *_: ROOM)
    wrap(writer, "line_up", lambda _: lambda _: None)
    # Nor at the start: nobody would let through again what is held back then.
    wrap(keys, "_line_up", lambda _: lambda *_: 0)


MUTANTS: dict[str, Callable[[], None]] = {
    "answer before COMMIT": answer_before_commit,
    "without fencing": without_fencing,
    "without limits": without_limits,
}


def add_migrations(number: int) -> None:
    """Have so many migrations more than this version ships."""
    wrap(store, "shipped_migrations", lambda original: lambda: [*original(), *[MORE] * number])


def count_tasks(path: Path) -> None:
    """Write the number of tasks to a file at SIGUSR2."""

    def write() -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(str(len(asyncio.all_tasks())))
        fresh.rename(path)

    def around(original: Any) -> Any:
        async def start(self: daemon.Daemon) -> None:
            await original(self)
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, write)

        return start

    wrap(daemon.Daemon, "start", around)


def build_in() -> None:
    """Do what the environment asks for."""
    wanted = os.environ.get
    if schemas := wanted("FAULT_SCHEMAS"):
        add_migrations(int(schemas))
    if mutant := wanted("FAULT_MUTANT"):
        MUTANTS[mutant]()
    if point := wanted("FAULT_POINT"):
        POINTS[point](Point())
    if tasks := wanted("FAULT_TASKS"):
        count_tasks(Path(tasks))


if __name__ == "__main__":
    build_in()
    sys.exit(main())
