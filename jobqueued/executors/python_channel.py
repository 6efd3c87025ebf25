"""The daemon's end of the line to one Python child: framed messages over two pipes.

Pipes, because a round trip over a socket pair costs half as much again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Callable

HEADER = struct.Struct(">II")
LENGTH = struct.Struct(">I")
RECEIVE_SIZE = 64 * 1024
MAX_MESSAGE = 256 * 1024


class ChannelClosed(Exception):
    """The child does not listen any more."""


class Channel:
    """Sends a head and a body; hands each message that comes to `take`, its first line apart.

    A message too long to be one is told to `refuse`.
    """

    def __init__(self, take: Callable[[bytes, bytes], None], refuse: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._refuse = refuse
        self._received = bytearray()
        self._unsent = memoryview(b"")
        with contextlib.ExitStack() as undo:
            their_jobs, self._jobs = _open_pipe(undo)
            self._answers, their_answers = _open_pipe(undo)
            undo.pop_all()
        self.for_child = (their_jobs, their_answers)
        os.set_blocking(self._jobs, False)
        os.set_blocking(self._answers, False)
        self._loop.add_reader(self._answers, self.receive)

    def handed_over(self) -> None:
        """The child has its own copies of its ends now."""
        for descriptor in self.for_child:
            os.close(descriptor)
        self.for_child = (-1, -1)

    def send(self, head: bytes, body: bytes) -> None:
        """Send now what fits into the socket, and the rest when there is room."""
        self.send_raw(b"%b%b%b" % (HEADER.pack(len(head), len(body)), head, body))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._unsent:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return
        sent = self._try_to_send(memoryview(data))
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._loop.add_writer(self._jobs, self._send_rest)

    def receive(self) -> bool:
        """Take what has come, if anything has."""
        try:
            data = os.read(self._answers, RECEIVE_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._answers)
            return False
        self._received += data
        self._take_whole_messages()
        return True

    def finish(self) -> None:
        """Ask the child to end: there will be no more."""
        if self._jobs >= 0:
            self._loop.remove_writer(self._jobs)
            os.close(self._jobs)
            self._jobs = -1

    def close(self) -> None:
        """Give back all that is open."""
        self.finish()
        if self._answers >= 0:
            self._loop.remove_reader(self._answers)
            os.close(self._answers)
            self._answers = -1
        if self.for_child[0] >= 0:
            self.handed_over()

    def _take_whole_messages(self) -> None:
        received = self._received
        while len(received) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(received)
            if size > MAX_MESSAGE:
                received.clear()
                self._refuse()
                return
            end = LENGTH.size + size
            if len(received) < end:
                return
            head, _, body = bytes(received[LENGTH.size : end]).partition(b"\n")
            del received[:end]
            self._take(head, body)

    def _try_to_send(self, data: memoryview) -> int:
        try:
            return os.write(self._jobs, data)
        except BlockingIOError:
            return 0
        except OSError:
            raise ChannelClosed from None

    def _send_rest(self) -> None:
        try:
            self._unsent = self._unsent[self._try_to_send(self._unsent) :]
        except ChannelClosed:
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._loop.remove_writer(self._jobs)


def _open_pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends
