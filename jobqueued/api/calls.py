"""One call of one route, as its handler sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web

from jobqueued.api.body import read_json_body
from jobqueued.api.fields import Faults, Fields, read_fields, read_optional_object

if TYPE_CHECKING:
    from jobqueued.api.app import App
    from jobqueued.engine.service import Engine

Result = TypeVar("Result")

_NO_FIELDS = Fields({})


class OpenEnds:
    """Answers that wait for something: long polls and streams.

    They alone end when their client hangs up or the server closes. Every other request runs to
    its end, so that nobody breaks a change off half way by hanging up.
    """

    def __init__(self) -> None:
        self._limits: dict[web.RequestHandler, asyncio.Timeout] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._limits)

    async def run(self, client: web.RequestHandler, work: Awaitable[Result]) -> Result | None:
        """What `work` comes to, or None when client or server end it before."""
        gone = self._closed or client.transport is None
        limit = self._limits[client] = asyncio.timeout(0 if gone else None)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        finally:
            del self._limits[client]

    def end(self, client: web.RequestHandler) -> None:
        """This client has hung up."""
        limit = self._limits.get(client)
        if limit is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """End all of them now, and every later one at once."""
        self._closed = True
        for client in list(self._limits):
            self.end(client)


class Call(msgspec.Struct):
    """What a handler needs: the request, the id in its path, its query, and who answers."""

    app: App
    request: web.BaseRequest
    id: str
    query: dict[str, Any]

    @property
    def engine(self) -> Engine:
        return self.app.engine

    async def open_ended(self, work: Awaitable[Result]) -> Result | None:
        """What `work` comes to, or None when it is of no more use."""
        return await self.app.open_ends.run(self.request.protocol, work)

    def body(self) -> Awaitable[bytes]:
        """The body of the request, which must be JSON."""
        return read_json_body(self.request, self.engine.config.server.max_body)

    async def fields(self, known: Fields) -> dict[str, Any]:
        """The fields in the body of an action, which may be left out."""
        faults = Faults()
        values = read_fields(read_optional_object(await self.body()), known, faults)
        faults.raise_any()
        return values

    async def no_fields(self) -> None:
        """The body of an action: none, or an object without fields."""
        await self.fields(_NO_FIELDS)


Handler = Callable[[Call], Awaitable[web.StreamResponse]]
