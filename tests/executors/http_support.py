"""Receivers of webhooks on loopback, names that lead where a test wants, tasks to send."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy

from jobqueued import clock
from jobqueued.executors.interface import Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed, Lease
from jobqueued.model.job_type import HttpHandler, JobType
from jobqueued.model.retry import Backoff

Reply = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_numbers = itertools.count(1)


def http_task(
    *,
    payload: bytes = b"{}",
    timeout: int = 120_000,
    correlation_id: str | None = None,
    longest_backoff: int = 3_600_000,
    **handler: object,
) -> Task:
    """One attempt that posts its payload; the rest are fields of the handler."""
    number = next(_numbers)
    claimed = Claimed(
        lease=Lease(f"job-{number}", 3, f"token-{number}"),
        type="sample",
        payload=payload,
        payload_intact=True,
        priority=5,
        max_retries=5,
        failures=0,
        losses=0,
        created_at=1_700_000_000_123,
        started_at=clock.now(),
        correlation_id=correlation_id,
        key=None,
        tenant=None,
        pool="default",
        worker="default-1",
    )
    job_type = JobType(
        name="sample",
        handler=HttpHandler(**handler),  # type: ignore[arg-type]
        timeout=timeout,
        backoff=Backoff(max=longest_backoff),
    )
    return Task(claimed, job_type, 1_700_000_100_000, "http://127.0.0.1:5627", Output())


class Received:
    """One request as a receiver saw it."""

    def __init__(self, request: web.BaseRequest, body: bytes) -> None:
        self.method = request.method
        self.target = request.path_qs
        self.headers: CIMultiDictProxy[str] = request.headers
        self.body = body


class Receiver:
    """Keeps every request and answers as told."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[Received] = []
        self.reply: Reply = _empty

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def answers(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Every answer from now on."""

        async def reply(request: web.BaseRequest) -> web.StreamResponse:
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            return web.Response(status=status, body=body, headers=named)

        self.reply = reply

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(Received(request, await request.read()))
        return await self.reply(request)


async def _empty(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response()


@asynccontextmanager
async def a_receiver(
    context: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Receiver]:
    """A receiver on a port of its own or on this one, with TLS where there is a context."""
    listener = socket.create_server(("127.0.0.1", port))
    receiver = Receiver(listener.getsockname()[1])
    runner = web.ServerRunner(web.Server(receiver.handle), shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, ssl_context=context).start()
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[str]:
    """A server that does what the script says with each connection; yields its address."""
    busy: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy.add(asyncio.create_task(converse(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()
        for conversation in busy:
            conversation.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """A request up to its body."""
    return await reader.readuntil(b"\r\n\r\n")


async def read_request(reader: asyncio.StreamReader) -> None:
    """A whole request; its body is the two bytes of an empty object."""
    await read_head(reader)
    await reader.readexactly(2)


class NoName(AbstractResolver):
    """Knows no name, and says so or keeps silent for ever."""

    def __init__(self, silent: bool = False) -> None:
        self._silent = silent

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if self._silent:
            await asyncio.Event().wait()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def close(self) -> None:
        """There is nothing to give back."""


class Names(AbstractResolver):
    """Answers each lookup with the next list of addresses; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [_resolved(host, address, port) for address in found]

    async def close(self) -> None:
        self.closed = True


def _resolved(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


def make_certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate that vouches for itself, and a server's context that shows it."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    order = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN={name} -addext subjectAltName=DNS:{name}"
    )
    subprocess.run(
        [*order.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=30,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
