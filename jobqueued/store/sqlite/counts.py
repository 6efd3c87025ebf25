"""How many jobs there are of each type, status and priority, and what holds the types."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import starmap
from typing import Any, NamedTuple

import msgspec

from jobqueued.model.control import OPEN_TO_ALL, Control
from jobqueued.model.job import MAX_PRIORITY, WAITING
from jobqueued.store.interface import Key
from jobqueued.store.sqlite.queries import SQL, run_many

Row = tuple[Any, ...]
Lane = tuple[str, str, int]
Delta = dict[Lane, int]
Controls = dict[str, Control]


class KeyLimit(NamedTuple):
    """How many jobs of one key of a type may run, and whether all its jobs are in line for it."""

    most: int | None
    is_lined_up: bool


KeyLimits = Mapping[str, KeyLimit]
NO_LIMITS: KeyLimits = {}


class JobCounts:
    """One side's copy of the counts; the writer's thread and the event loop each have their own.

    `controls` are the types that something holds, or once did.
    """

    def __init__(self, lanes: Delta, controls: Controls | None = None) -> None:
        self._lanes = lanes
        self.controls = controls or {}
        self._types: dict[tuple[str, str], int] = {}
        for (job_type, status, _), n in lanes.items():
            self._types[job_type, status] = self._types.get((job_type, status), 0) + n
        self.damaged: set[int] = set()
        """Rows that are not what their index says; they are left alone."""
        self.waiting = sum(n for (_, status), n in self._types.items() if status in WAITING)

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> JobCounts:
        rows = connection.execute(SQL["read_counts"]).fetchall()
        controls = connection.execute(SQL["read_controls"]).fetchall()
        return cls({(t, s, p): n for t, s, p, n in rows if n}, dict(starmap(_control, controls)))

    def copy(self) -> JobCounts:
        return JobCounts(dict(self._lanes), dict(self.controls))

    def apply(self, delta: Delta, controls: Controls) -> None:
        self.controls.update(controls)
        for lane, change in delta.items():
            self._lanes[lane] = self._lanes.get(lane, 0) + change
            key = lane[:2]
            self._types[key] = self._types.get(key, 0) + change
            if key[1] in WAITING:
                self.waiting += change

    def lane(self, job_type: str, status: str, priority: int) -> int:
        return self._lanes.get((job_type, status, priority), 0)

    def of(self, job_type: str, status: str) -> int:
        return self._types.get((job_type, status), 0)

    def better_than(self, job_type: str, priority: int) -> int:
        better = range(priority + 1, MAX_PRIORITY + 1)
        return sum(self.lane(job_type, "pending", each) for each in better)

    def pending_lanes(self) -> Iterator[tuple[str, int]]:
        """Type and priority of every lane that has pending jobs."""
        for (job_type, status, priority), n in self._lanes.items():
            if status == "pending" and n:
                yield job_type, priority

    def by_type(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for (job_type, status), n in self._types.items():
            if n:
                found.setdefault(job_type, {})[status] = n
        return found

    def by_status(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for (_, status), n in self._types.items():
            found[status] = found.get(status, 0) + n
        return found


class Transaction:
    """A write under way: the connection, and what it does to the counts and controls."""

    def __init__(
        self, connection: sqlite3.Connection, counts: JobCounts, key_limits: KeyLimits = NO_LIMITS
    ) -> None:
        self.execute = connection.execute
        self.counts = counts
        self.delta: Delta = {}
        self.controls: Controls = {}
        """What holds types from now on, where that is something else."""
        self.key_limits = key_limits
        self.keys: dict[Key, int] = {}
        """How many jobs of which keys came or went."""
        self.latest = 0
        """When the last attempt ended that ends in it: nothing it leaves begins before."""

    def many(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """A statement for many rows at once; what it returns of them, in any order."""
        return run_many(self.execute, name, rows)

    def added(self, lane: Lane, number: int) -> None:
        """Note so many new jobs."""
        self.delta[lane] = self.delta.get(lane, 0) + number

    def moved(self, job_type: str, priority: int, old: str | None, new: str | None) -> None:
        """Note that a job left one status (None: it is new) for another (None: it is gone)."""
        for status, change in ((old, -1), (new, 1)):
            if status is not None:
                lane = (job_type, status, priority)
                self.delta[lane] = self.delta.get(lane, 0) + change

    def touched(self, job_type: str, tenant: str | None, key: str | None) -> None:
        """Note that a job came to those that are pending or run, or left them."""
        if key is not None and job_type in self.key_limits:
            one = (job_type, tenant, key)
            self.keys[one] = self.keys.get(one, 0) + 1

    def pending(self, job_type: str, priority: int) -> int:
        lane = (job_type, "pending", priority)
        return self.counts.lane(*lane) + self.delta.get(lane, 0)

    def running(self, job_type: str) -> int:
        changed = sum(
            n for (t, s, _), n in self.delta.items() if (t, s) == (job_type, "processing")
        )
        return self.counts.of(job_type, "processing") + changed

    def control(self, job_type: str) -> Control:
        """What holds a type, after all that was done so far."""
        changed = self.controls.get(job_type)
        return changed or self.counts.controls.get(job_type, OPEN_TO_ALL)

    def put_control(self, job_type: str, control: Control) -> None:
        """Note what holds a type from now on."""
        if control != self.control(job_type):
            self.controls[job_type] = control

    def finish(self) -> None:
        """Last of all: put on disk what changed in the counts and controls."""
        self._write_counts()
        for job_type, control in self.controls.items():
            *values, spent = msgspec.structs.astuple(control)
            text = None if spent is None else str(spent)
            self.execute(SQL["put_control"], (job_type, *values, text))

    def _write_counts(self) -> None:
        rows = [(*lane, change) for lane, change in self.delta.items() if change]
        # A negative change must meet its row first, or CHECK (n >= 0) refuses the insert.
        for row in rows:
            if row[3] > 0 or not self._lower(row):
                self.execute(SQL["add_count"], row)

    def _lower(self, row: tuple[str, str, int, int]) -> bool:
        return self.execute(SQL["lower_count"], (row[3], *row[:3])).rowcount == 1


def _control(job_type: str, *values: Any) -> tuple[str, Control]:
    fields = dict(zip(Control.__struct_fields__, values, strict=True))
    if fields["spent_until"] is not None:
        fields["spent_until"] = Fraction(fields["spent_until"])
    return job_type, Control(**fields)
