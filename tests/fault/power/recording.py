"""Recording what a process does to its files, and reading the record."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from tests.fault.preload import with_library

SOURCE = "power/record.c"
_HEAD = struct.Struct("<IiqqqqII")
NO_FILE = -1


class Kind(IntEnum):
    """What was done; the numbers are those of record.c."""

    OPENED = 1
    CLOSED = 2
    WRITTEN = 3
    RESIZED = 4
    SYNCED = 5
    ALLOCATED = 6
    RENAMED = 7
    UNLINKED = 8
    LINKED = 9
    DIRECTORY_MADE = 10
    DIRECTORY_REMOVED = 11


CREATED = 1
EMPTIED = 2


class Operation(NamedTuple):
    """One call that succeeded; times are nanoseconds of the monotonic clock."""

    kind: Kind
    descriptor: int
    """NO_FILE when the file was named."""
    began: int
    ended: int
    offset: int
    """Of an opened file: whether it was CREATED, EMPTIED."""
    size: int
    """Of an opened file: how long it is, below zero for a directory."""
    names: tuple[str, ...]
    data: bytes

    @property
    def name(self) -> str:
        return self.names[0]


def recorder(directory: Path, trace: Path) -> dict[str, str]:
    """What a process needs in its environment to be recorded."""
    return with_library(
        {}, SOURCE, POWER_DIRECTORY=str(directory.resolve()), POWER_TRACE=str(trace)
    )


def read_trace(path: Path) -> list[Operation]:
    """Everything that was recorded, in order."""
    return list(_operations(path.read_bytes()))


def _operations(trace: bytes) -> Iterator[Operation]:
    place = 0
    # A process that is killed may leave its last note cut off, and no call after it.
    while place + _HEAD.size <= len(trace):
        kind, descriptor, *figures, name_length, data_length = _HEAD.unpack_from(trace, place)
        place += _HEAD.size
        end = place + name_length + data_length
        if end > len(trace):
            return
        names = os.fsdecode(trace[place : place + name_length])
        data = trace[place + name_length : end]
        began, ended, offset, size = figures
        yield Operation(
            Kind(kind), descriptor, began, ended, offset, size, tuple(names.split("\0")), data
        )
        place = end
