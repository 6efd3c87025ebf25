"""One connection: aiohttp's protocol with our refusals and a limit on how many there are."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from jobqueued.api.app import App
from jobqueued.api.errors import Problem

MOST_CONNECTIONS = 16_384
LEAST_CONNECTIONS = 64
UNIX_RESERVE = 16
"""Connections of the unix socket alone, so that the operator gets in when TCP is full."""


def connection_limit() -> int:
    """As many as leave a quarter of the descriptors for handlers and the store."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, soft - max(128, soft // 4)))


class Listener(web.Server):
    """Makes a `Connection` for every client."""

    def __init__(self, app: App, most: int, **options: Any) -> None:
        super().__init__(app.handle, **options)
        self.app = app
        self.most = most

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=asyncio.get_running_loop(), **self._kwargs)

    def has_room(self, transport: asyncio.BaseTransport) -> bool:
        """Whether one more client fits."""
        over_unix = isinstance(transport.get_extra_info("sockname"), str | bytes)
        return len(self._connections) < self.most + (UNIX_RESERVE if over_unix else 0)


class Connection(web.RequestHandler):
    """Refuses in problem documents what aiohttp refuses in plain text."""

    __slots__ = ("_listener",)

    def __init__(self, listener: Listener, **options: Any) -> None:
        super().__init__(listener, **options)
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the client, or hang up when there are too many."""
        if self._listener.has_room(transport):
            super().connection_made(transport)
        else:
            self._listener.app.refused["too_many_connections"] += 1
            transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what only this client waits for."""
        super().connection_lost(exc)
        self._listener.app.open_ends.end(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is not well-formed HTTP; nothing of it reaches the log."""
        error: Exception
        if isinstance(exc, HttpProcessingError):
            detail = "This is not a well-formed HTTP request, or its headers are too large."
            error = Problem(400, "bad_request", detail, closes=True)
        else:
            error = exc if isinstance(exc, Exception) else RuntimeError(message or str(status))
        return self._listener.app.refuse(request, error)
