"""Whole answers, built once and sent with one write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11

from jobqueued import clock

JSON = "application/json"
PLAIN_TEXT = "text/plain; charset=utf-8"
SERVER_NAME = "jobqueued"
SEND_SECONDS = 60.0
"""How long a client may take to read an answer before it is cut off."""

Headers = Sequence[tuple[str, str]]

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Answer(web.StreamResponse):
    """Status, a few headers and a body; leaner than aiohttp's own, which costs the hot path."""

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        headers: Headers = (),
        *,
        closes: bool = False,
    ) -> None:
        # The parent's state is left out on purpose: the protocol only calls prepare(),
        # write_eof() and keep_alive.
        self._status = status
        self._whole_body = body
        self._type_of_body = content_type
        self._more_headers = headers
        self._closes = closes

    def __repr__(self) -> str:
        return f"<Answer {self._status}>"

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send all of it."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        # What is left of an unread body would be taken for the next request.
        self._keep_alive = request.keep_alive and not self._closes and request.content.is_eof()
        head = self._head(request).encode("latin-1")
        transport.write(head if request.method == "HEAD" else head + self._whole_body)
        if request.protocol.writing_paused:
            await _until_read(request, transport)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""

    def _head(self, request: web.BaseRequest) -> str:
        more = "".join([f"{name}: {value}\r\n" for name, value in self._more_headers])
        if not self._keep_alive:
            more += "Connection: close\r\n"
        elif request.version < HttpVersion11:
            more += "Connection: keep-alive\r\n"
        return (
            f"HTTP/1.1 {self._status} {_PHRASES[self._status]}\r\n"
            f"Content-Type: {self._type_of_body}\r\n"
            f"Content-Length: {len(self._whole_body)}\r\n"
            f"Date: {_date(clock.now() // 1000)}\r\nServer: {SERVER_NAME}\r\n{more}\r\n"
        )


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


async def _until_read(request: web.BaseRequest, transport: asyncio.Transport) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await request.writer.drain()
    except TimeoutError:
        transport.abort()
        raise ConnectionResetError("the client does not read its answer") from None
