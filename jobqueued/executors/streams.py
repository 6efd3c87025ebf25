"""The three standard streams of one handler, on the daemon's side. Nothing here ever blocks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from jobqueued.executors.output import Output
from jobqueued.model.job import MAX_RESULT

READ_SIZE = 64 * 1024
MOST_AT_THE_END = 1024 * 1024
LAST_MOMENT = 0.2
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Collected:
    """Standard output kept whole, as long as it can still be a result."""

    def __init__(self, limit: int = 2 * MAX_RESULT) -> None:
        self.data = bytearray()
        self.whole = True
        self._limit = limit

    def write(self, data: bytes) -> None:
        """Keep it, or only note that it was too much."""
        room = self._limit - len(self.data)
        self.whole = self.whole and len(data) <= room
        self.data += data[:room]


class Capture:
    """Reads one pipe until its end."""

    def __init__(self, *sinks: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sinks = sinks
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._reader, self._read)

    def close_writer(self) -> None:
        """Give up our copy of the handler's end."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def read_what_is_there(self) -> None:
        """Take what is in the pipe now, within bounds."""
        taken = 0
        while taken < MOST_AT_THE_END and (size := self._read()):
            taken += size

    def close(self) -> None:
        """Give back both ends; a writer that is left gets SIGPIPE."""
        self.close_writer()
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1
        if not self.ended.done():
            self.ended.set_result(None)

    def _read(self) -> int:
        if self.ended.done():
            return 0
        try:
            data = os.read(self._reader, READ_SIZE)
        except BlockingIOError:
            return 0
        for sink in self._sinks:
            sink(data)
        if not data:
            self._loop.remove_reader(self._reader)
            self.ended.set_result(None)
        return len(data)


class Streams:
    """A payload to read, and one or two pipes to write to."""

    def __init__(self, payload: int, out: Capture, err: Capture, result: Collected | None) -> None:
        self._payload = payload
        self._captures = (out,) if out is err else (out, err)
        self.result = result
        self.for_handler = (payload, out.writer, err.writer)

    def handed_over(self) -> None:
        """The handler has its own copies now."""
        os.close(self._payload)
        self._payload = -1
        for capture in self._captures:
            capture.close_writer()

    async def finish(self) -> None:
        """Read the rest; a process that still holds a pipe is given one last moment, no more."""
        for capture in self._captures:
            capture.read_what_is_there()
        waiting = [capture.ended for capture in self._captures if not capture.ended.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=LAST_MOMENT)

    def close(self) -> None:
        """Give back what is still open."""
        if self._payload >= 0:
            os.close(self._payload)
        for capture in self._captures:
            capture.close()


@contextlib.contextmanager
def open_streams(payload: bytes, output: Output, collect: bool) -> Iterator[Streams]:
    """Open the streams of one attempt; with `collect` standard output is also kept as a result."""
    with contextlib.ExitStack() as undo:
        stdin = payload_file(payload)
        undo.callback(os.close, stdin)
        result = Collected() if collect else None
        out = Capture(output.write) if result is None else Capture(output.write, result.write)
        undo.callback(out.close)
        err = out if result is None else Capture(output.write)
        streams = Streams(stdin, out, err, result)
        undo.pop_all()
    try:
        yield streams
    finally:
        streams.close()


def payload_file(payload: bytes) -> int:
    """An unnamed file that holds the payload, read from its start; nobody can change it."""
    file = os.memfd_create("payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        written = 0
        while written < len(payload):
            written += os.pwrite(file, memoryview(payload)[written:], written)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(file)
        raise
    return file
