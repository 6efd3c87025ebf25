"""What a handler wrote, bounded: its beginning and its end are kept, the middle is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

KEPT = 32 * 1024


class Output:
    """A bounded log in memory that any number of followers can read while it grows."""

    def __init__(self, head: int = KEPT, tail: int = KEPT) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._waiting: list[asyncio.Future[None]] = []
        self.total = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        """Add to the end; what comes after `close` is dropped."""
        if self.closed or not data:
            return
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._add_to_tail(data)
        self._wake()

    def close(self) -> None:
        """There will be no more: followers finish."""
        self.closed = True
        self._wake()

    def snapshot(self) -> bytes:
        """All that is kept, with a line that says how much is not."""
        missing = self._tail_start - len(self._head)
        middle = _left_out(missing) if missing else b""
        return bytes(self._head) + middle + bytes(self._tail)

    def ending(self, size: int) -> bytes:
        """The last bytes that were written, at most `size` of them."""
        whole = self._tail_start == len(self._head)
        kept = bytes(self._head + self._tail if whole else self._tail)
        return kept[max(0, len(kept) - size) :]

    async def follow(self) -> AsyncIterator[bytes]:
        """Everything from the start, then what comes, until closed; a slow reader skips ahead."""
        position = 0
        while True:
            if position < self.total:
                piece, position = self._piece(position)
                yield piece
            elif self.closed:
                return
            else:
                await self._more()

    @property
    def _tail_start(self) -> int:
        return self.total - len(self._tail)

    def _add_to_tail(self, data: bytes) -> None:
        self._tail += data[-self._tail_size :] if self._tail_size else b""
        del self._tail[: max(0, len(self._tail) - self._tail_size)]

    def _piece(self, position: int) -> tuple[bytes, int]:
        if position < len(self._head):
            return bytes(self._head[position:]), len(self._head)
        start = self._tail_start
        if position < start:
            return _left_out(start - position), start
        return bytes(self._tail[position - start :]), self.total

    async def _more(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _left_out(count: int) -> bytes:
    return b"\n[... %d bytes left out ...]\n" % count
