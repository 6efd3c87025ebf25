"""A line to a daemon: HTTP over connections that stay open, asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import ClientConnectorError, ClientError, ClientResponse, ClientTimeout
from yarl import URL

from jobqueued.client.address import Address
from jobqueued.client.daemon import ANSWER_SECONDS, CONNECT_SECONDS
from jobqueued.client.errors import BadAddress, NotConnected, Unreachable, problem_from

STREAM_CHUNK = 64 * 1024
IDLE_SECONDS = 30.0
"""Shorter than the daemon keeps an idle connection, so that none is closed as it is used."""


class Link:
    """The first daemon that accepts a connection at one of `addresses`; then that one."""

    def __init__(self, addresses: Sequence[Address], key: str | None, connections: int) -> None:
        self.addresses = list(addresses)
        self._connections = connections
        self._headers = {"Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {_usable(key.strip())}"
        self._sessions: dict[Address, aiohttp.ClientSession] = {}

    async def exchange(self, method: str, path: str, body: bytes | None, wait: float) -> bytes:
        """Send a request and answer with the body; `wait` is added to the time it may take."""
        limits = ClientTimeout(total=ANSWER_SECONDS + wait, connect=CONNECT_SECONDS)
        async with self._request(method, path, body, limits) as response:
            return await response.read()

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """Yield the answer as it comes, for as long as it takes."""
        limits = ClientTimeout(total=None, connect=CONNECT_SECONDS)
        async with self._request("GET", path, None, limits) as response:
            async for chunk in response.content.iter_chunked(STREAM_CHUNK):
                yield chunk

    def finish_sending(self) -> None:
        """Tell the daemon that nothing more comes; what it has answered still arrives."""
        for session in self._sessions.values():
            if isinstance(session.connector, _TcpConnector | _UnixConnector):
                session.connector.finish_sending()

    async def close(self) -> None:
        """Close every connection."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: bytes | None, limits: ClientTimeout
    ) -> AsyncIterator[ClientResponse]:
        response, address = await self._send(method, path, body, limits)
        try:
            async with response:
                if response.status >= 400:
                    raise problem_from(
                        response.status,
                        response.reason or "",
                        await response.read(),
                        response.headers.get("Retry-After"),
                    )
                yield response
        except TimeoutError as error:
            raise _too_late(address) from error
        except (ClientError, ConnectionError) as error:
            raise _broken_off(address, error) from error

    async def _send(
        self, method: str, path: str, body: bytes | None, limits: ClientTimeout
    ) -> tuple[ClientResponse, Address]:
        """Send to the first address that lets us connect, and stay with it."""
        tried = []
        for address in self.addresses:
            try:
                response = await self._ask(address, method, path, body, limits)
            except (ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                tried.append(f"{address}: {_reason(error)}")
                continue
            except TimeoutError as error:
                raise _too_late(address) from error
            except (ClientError, ConnectionError) as error:
                raise _broken_off(address, error) from error
            self.addresses = [address]
            return response, address
        raise NotConnected("no daemon answers (" + "; ".join(tried) + ")")

    async def _ask(
        self, address: Address, method: str, path: str, body: bytes | None, limits: ClientTimeout
    ) -> ClientResponse:
        session = self._sessions.get(address) or self._open(address)
        content = {"Content-Type": "application/json"} if body is not None else None
        return await session.request(
            method, _url(address, path), data=body, headers=content, timeout=limits,
            allow_redirects=False,
        )  # fmt: skip

    def _open(self, address: Address) -> aiohttp.ClientSession:
        options: dict[str, Any] = {
            "limit": self._connections,
            "keepalive_timeout": IDLE_SECONDS,
        }
        connector = (
            _TcpConnector(**options)
            if address.path is None
            else _UnixConnector(address.path, **options)
        )
        session = aiohttp.ClientSession(
            connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept-Encoding"), auto_decompress=False,
        )  # fmt: skip
        self._sessions[address] = session
        return session


class _Watched(aiohttp.BaseConnector):
    """Knows the connections it has handed out, so that their sending side can be closed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._transports: set[asyncio.Transport] = set()

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        connection = await super().connect(*arguments, **options)
        if connection.transport is not None:
            self._transports.add(connection.transport)
        if len(self._transports) > self.limit:
            self._transports = {one for one in self._transports if not one.is_closing()}
        return connection

    def finish_sending(self) -> None:
        for transport in self._transports:
            if not transport.is_closing() and transport.can_write_eof():
                transport.write_eof()


class _TcpConnector(_Watched, aiohttp.TCPConnector):
    pass


class _UnixConnector(_Watched, aiohttp.UnixConnector):
    pass


def _url(address: Address, path: str) -> URL:
    host = "localhost" if address.path is not None else address.host
    bracketed = f"[{host}]" if ":" in host else host
    port = 80 if address.path is not None else address.port
    return URL(f"http://{bracketed}:{port}{path}", encoded=True)


def _usable(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise BadAddress("the key has characters no key has")
    return key


def _too_late(address: Address) -> Unreachable:
    return Unreachable(f"the daemon at {address} did not answer in time")


def _broken_off(address: Address, error: Exception) -> Unreachable:
    return Unreachable(f"the daemon at {address} broke off: {_reason(error)}")


def _reason(error: Exception) -> str:
    cause = error.os_error if isinstance(error, ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
