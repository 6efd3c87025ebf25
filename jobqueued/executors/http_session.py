"""The HTTP client behind the webhooks: connections, and who is trusted to be at their other end."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import SimpleNamespace

from aiohttp import (
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    TraceConfig,
    TraceConnectionReuseconnParams,
)
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from jobqueued.executors.http_guard import PublicResolver, public_socket
from jobqueued.executors.http_patience import BoundedAnswers

MOST_TRUST_FILES = 100


@dataclass(slots=True)
class Sending:
    """One request under way; `reused` when it went over a connection kept from an earlier one."""

    reused: bool = False


class Route(Enum):
    """How connections are made."""

    FIXED = "to the address of a type: kept for its next job"
    OPEN = "to an address from a payload"
    GUARDED = "to an address from a payload, which must be public"


def open_session(names: AbstractResolver, route: Route) -> ClientSession:
    """A client for webhooks; how many connections are in use is bounded by the pools, not here."""
    guarded = route is Route.GUARDED
    connector = TCPConnector(
        limit=0,
        # Payloads can name any number of hosts; idle connections to all of them have no bound.
        force_close=route is not Route.FIXED,
        resolver=PublicResolver(names) if guarded else names,
        socket_factory=public_socket if guarded else None,
    )
    connector._factory = partial(_conversation)
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
        trace_configs=[_reuse_noticed()],
    )


def _conversation() -> ResponseHandler:
    return BoundedAnswers(asyncio.get_running_loop())


class BadTrustFile(Exception):
    """The file with the trusted certificates cannot be used."""


class TrustStore:
    """The certificates of each `ca_file`, read again when the file changes."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int, int], ssl.SSLContext]] = {}

    async def context(self, ca_file: str | None) -> ssl.SSLContext | bool:
        """Whom to trust: those in the file, or without one those the system trusts."""
        if ca_file is None:
            return True
        try:
            return await self._current(ca_file)
        # An ssl.SSLError is an OSError too.
        except OSError as error:
            reason = error.strerror or "it holds no certificate"
            raise BadTrustFile(f"ca_file {ca_file} cannot be used: {reason}") from None

    async def _current(self, ca_file: str) -> ssl.SSLContext:
        state = os.stat(ca_file)
        version = (state.st_mtime_ns, state.st_size, state.st_ino)
        known = self._read.get(ca_file)
        if known is not None and known[0] == version:
            return known[1]
        context = await asyncio.to_thread(ssl.create_default_context, cafile=ca_file)
        if len(self._read) >= MOST_TRUST_FILES:
            self._read.clear()
        self._read[ca_file] = (version, context)
        return context


def _reuse_noticed() -> TraceConfig:
    trace = TraceConfig()
    trace.on_connection_reuseconn.append(_note_reuse)
    return trace


async def _note_reuse(
    session: ClientSession, context: SimpleNamespace, parameters: TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True
