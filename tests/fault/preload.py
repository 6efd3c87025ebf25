"""Libraries loaded into the daemon before all others: a disk that fails, a clock that jumps."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
from enum import IntFlag
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent
EVER = 1 << 62


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """Where the libraries of this process are; it goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="jobqueued-libraries-")


def no_compiler() -> str | None:
    """What is missing to build libraries, if anything is."""
    return None if shutil.which("cc") else "needs a C compiler (cc)"


@cache
def library(source: Path) -> Path:
    """A C file built as a library to be preloaded, once for each process."""
    built = Path(_place().name) / f"{source.stem}.so"
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *options, "-o", built, source, "-ldl"], check=True)
    return built


def with_library(variables: dict[str, str], source: str, **more: str) -> dict[str, str]:
    """An environment in which one more library is loaded."""
    built = str(library(SOURCES / source))
    loaded = variables.get("LD_PRELOAD")
    return variables | more | {"LD_PRELOAD": f"{loaded}:{built}" if loaded else built}


class Calls(IntFlag):
    """Kinds of calls on files, as the library numbers them."""

    WRITE = 1
    SYNC = 2
    TRUNCATE = 4
    ALLOCATE = 8
    OPEN = 16
    READ = 32


CHANGES = Calls.WRITE | Calls.SYNC | Calls.TRUNCATE
READ_ONLY = Calls.WRITE | Calls.TRUNCATE | Calls.ALLOCATE | Calls.OPEN
"""What a file system that became read-only refuses."""
NO_SPACE = Calls.WRITE | Calls.ALLOCATE


class FaultyDisk:
    """Control over the calls of a daemon on its database and the files beside it."""

    _layout = struct.Struct("=7q")

    def __init__(self, database: Path) -> None:
        control = database.with_name("control")
        control.write_bytes(bytes(self._layout.size))
        self._variables = {"INJECT_PATH": str(database), "INJECT_CONTROL": str(control)}
        with control.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), self._layout.size)

    def under_control(self, variables: dict[str, str]) -> dict[str, str]:
        """The environment of a daemon whose calls are to be under control."""
        return with_library(variables, "inject.c", **self._variables)

    def fail(self, calls: Calls, error: int, *, after: int = 0, times: int = EVER) -> None:
        """Let `after` calls pass, then make so many fail."""
        self._set(calls, error, after, after + times, 0)

    def slow(self, calls: Calls, milliseconds: int) -> None:
        """Make calls take that long."""
        self._set(calls, 0, 0, 0, milliseconds)

    def watch(self, calls: Calls) -> None:
        """Only count."""
        self._set(calls, 0, 0, 0, 0)

    def heal(self) -> None:
        """Leave everything alone, as a disk does that works again."""
        self._set(Calls(0), 0, 0, 0, 0)

    @property
    def seen(self) -> int:
        """How many calls were meant since the last change."""
        return int(self._layout.unpack(self._mapped[:])[5])

    @property
    def failed(self) -> int:
        """How many failed since the last change."""
        return int(self._layout.unpack(self._mapped[:])[6])

    def _set(self, calls: Calls, error: int, first: int, end: int, milliseconds: int) -> None:
        # Off while it changes: what is half written must not mean anything.
        self._mapped[:8] = bytes(8)
        values = (int(calls), error, first, min(end, EVER), milliseconds, 0, 0)
        self._mapped[8:] = self._layout.pack(*values)[8:]
        self._mapped[:8] = self._layout.pack(*values)[:8]


class JumpingClock:
    """The wall clock of a daemon, set from outside; its monotonic clock stays as it is."""

    def __init__(self, place: Path) -> None:
        offset = place / "offset"
        offset.write_bytes(bytes(8))
        self._variables = {"CLOCK_OFFSET": str(offset)}
        with offset.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 8)
        self.offset = 0
        """Milliseconds ahead of the real one."""

    def under_control(self, variables: dict[str, str]) -> dict[str, str]:
        """The environment of a process whose clock is to be set."""
        return with_library(variables, "clock.c", **self._variables)

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.offset += int(seconds * 1000)
        self._mapped[:] = struct.pack("=q", self.offset)
