"""The lines of a file or of standard input, as they come and in bounded memory."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from typing import NamedTuple

CHUNK = 256 * 1024
LONGEST_LINE = 16 * 1024 * 1024
MOST_BYTES = 1024 * 1024
"""Of lines in one batch, unless a single one is longer."""
_MARK = b"\xef\xbb\xbf"
"""What some programs put at the start of a file of UTF-8."""


class Piece(NamedTuple):
    """A line that is not blank and where it is; without its text where it is too long."""

    number: int
    text: bytes | None
    start: int
    end: int


class Source:
    """Reads ahead no more than it must, so that a slow pipe's lines go on at once."""

    def __init__(self, descriptor: int, most: int) -> None:
        self.most = most
        """Lines in one batch."""
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self._pieces: deque[Piece] = deque()
        self._rest = bytearray()
        self._number = self._start = self._offset = 0
        self._ended = self._is_too_long = False

    async def take(self) -> list[Piece]:
        """The next lines, at least one; none at the end."""
        while not self._pieces and not self._ended:
            await self._read()
        taken: list[Piece] = []
        size = 0
        while self._pieces and len(taken) < self.most and size < MOST_BYTES:
            taken.append(self._pieces.popleft())
            size += taken[-1].end - taken[-1].start
        return taken

    async def _read(self) -> None:
        if self.size is None:
            await _readable(self._descriptor)
        chunk = os.read(self._descriptor, CHUNK)
        first, *others = chunk.split(b"\n")
        self._grow(first)
        for text in others:
            self._end_line(mark=1)
            self._grow(text)
        if not chunk:
            self._ended = True
            self._end_line()

    def _grow(self, text: bytes) -> None:
        self._offset += len(text)
        self._is_too_long = self._offset - self._start > LONGEST_LINE
        if self._is_too_long:
            self._rest.clear()
        else:
            self._rest += text

    def _end_line(self, mark: int = 0) -> None:
        """A line is over, with a mark of so many bytes."""
        self._number += 1
        self._offset += mark
        text = bytes(self._rest).removeprefix(_MARK if self._number == 1 else b"").strip()
        if text or self._is_too_long:
            kept = None if self._is_too_long else text
            self._pieces.append(Piece(self._number, kept, self._start, self._offset))
        self._rest.clear()
        self._start = self._offset


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read; what cannot be waited for always has."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
