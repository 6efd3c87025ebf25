"""The server: listens, serves, and ends in good order."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobqueued.api.app import App
from jobqueued.api.connections import Listener, connection_limit
from jobqueued.api.sockets import SocketFile, bind, file_of, name_of

if TYPE_CHECKING:
    from jobqueued.engine.service import Engine

BACKLOG = 1024
KEEPALIVE_SECONDS = 75.0
LINGER_SECONDS = 2.0
CLOSE_SECONDS = 5.0
MAX_HEADER_BYTES = 8190


class HttpServer:
    """Serves the API on every address of `listen`, or on sockets that were passed in instead."""

    def __init__(
        self,
        engine: Engine,
        listen: tuple[str, ...],
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        self.app = App(engine)
        self.addresses: list[str] = []
        """Where it really listens, in the form of `server.listen`."""
        self._listen = listen
        self._sockets = list(sockets)
        self._own_files: list[SocketFile] = []
        self._servers: list[asyncio.AbstractServer] = []
        self.listener: Listener | None = None

    @property
    def refused(self) -> Counter[str]:
        """Refused requests by the code of their problem."""
        return self.app.refused

    async def start(self) -> None:
        """Listen on every address; when one cannot be had, none is kept."""
        listener = self.listener = self._make_listener()
        try:
            if not self._sockets:
                self._bind()
            for bound in self._sockets:
                await self._serve(listener, bound)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening, end long polls and streams, let short answers finish."""
        # Before they are closed: until then no other file can have their inodes.
        while self._own_files:
            self._own_files.pop().remove()
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        self.app.open_ends.close()
        if self.listener is not None:
            # Requests that were received already begin before idle connections are closed.
            await asyncio.sleep(0)
            self.listener.pre_shutdown()
            await self.listener.shutdown(CLOSE_SECONDS)

    def _make_listener(self) -> Listener:
        return Listener(
            self.app,
            connection_limit(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            tcp_keepalive=True,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    def _bind(self) -> None:
        for text in self._listen:
            for bound in bind(text):
                self._sockets.append(bound)
                if bound.family == socket.AF_UNIX:
                    self._own_files.append(file_of(bound))

    async def _serve(self, listener: Listener, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        bound.setblocking(False)
        self.addresses.append(name_of(bound))
        if bound.family == socket.AF_UNIX:
            server = await loop.create_unix_server(listener, sock=bound, backlog=BACKLOG)
        else:
            server = await loop.create_server(listener, sock=bound, backlog=BACKLOG)
        self._servers.append(server)
