"""The server itself: its sockets, its limits, its end."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from jobqueued.api import answers, body
from jobqueued.api.app import Router
from jobqueued.api.calls import Call
from jobqueued.api.connections import UNIX_RESERVE, connection_limit
from jobqueued.api.routes import Route
from jobqueued.api.server import HttpServer
from jobqueued.config import Config
from jobqueued.engine.service import Engine
from jobqueued.model.submission import Submission
from jobqueued.store.sqlite.store import SqliteStore

HOST = b"Host: localhost\r\n"
PATIENCE = 10.0


@pytest.fixture
async def engine(config: Config) -> AsyncIterator[Engine]:
    """An engine that stores jobs and runs none."""
    store = await SqliteStore.open(config.store.path, config.store.durability)
    yield Engine(config, store, {})
    await store.close()


@pytest.fixture
async def server(engine: Engine, config: Config) -> AsyncIterator[HttpServer]:
    http = HttpServer(engine, config.server.listen)
    await http.start()
    yield http
    await http.close()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str) -> Client:
        if address.startswith("unix:"):
            return cls(*await asyncio.open_unix_connection(address.removeprefix("unix:")))
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            return int(head[9:12]), await self.reader.readexactly(length)

    async def end(self) -> bytes:
        """What comes until the server hangs up."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def healthy(address: str) -> bool:
    client = await Client.connect(address)
    client.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    status, _ = await client.answer()
    await client.close()
    return status == 200


async def until_open_ends(server: HttpServer, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(server.app.open_ends) != number:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_every_address_is_served(server: HttpServer, tmp_path: Path) -> None:
    tcp, unix = server.addresses
    assert unix == f"unix:{tmp_path}/api.sock"
    assert await healthy(tcp)
    assert await healthy(unix)


async def test_nothing_is_left_after_the_end(server: HttpServer, tmp_path: Path) -> None:
    idle = await Client.connect(server.addresses[0])
    assert await healthy(server.addresses[0])
    await server.close()
    assert await idle.end() == b""
    assert not (tmp_path / "api.sock").exists()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await Client.connect(server.addresses[0])
    await idle.close()


async def test_when_one_address_is_taken_none_is_kept(engine: Engine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        http = HttpServer(engine, (f"unix:{tmp_path}/other.sock", f"127.0.0.1:{port}"))
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            await http.start()
    assert not (tmp_path / "other.sock").exists()


async def test_sockets_that_were_passed_in_are_served(engine: Engine, tmp_path: Path) -> None:
    tcp = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(tmp_path / "passed.sock"))
    http = HttpServer(engine, ("127.0.0.1:1",), [tcp, unix])
    await http.start()
    assert http.addresses == [
        f"127.0.0.1:{tcp.getsockname()[1]}",
        f"unix:{tmp_path}/passed.sock",
    ]
    for address in http.addresses:
        assert await healthy(address)
    await http.close()
    assert (tmp_path / "passed.sock").exists()


async def test_a_body_that_does_not_come_is_not_waited_for(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.05)
    client = await Client.connect(server.addresses[0])
    client.send(b"POST /jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n{")
    status, text = await client.answer()
    assert (status, json.loads(text)["code"]) == (408, "body_timeout")
    await client.end()
    await client.close()


async def test_the_size_of_bodies_can_change(
    server: HttpServer, engine: Engine, config: Config
) -> None:
    client = await Client.connect(server.addresses[0])
    smaller = msgspec.structs.replace(config.server, max_body=5)
    engine.reload(msgspec.structs.replace(config, server=smaller))
    client.send(b"POST /jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 6\r\n\r\n{    }")
    status, text = await client.answer()
    assert (status, json.loads(text)["code"]) == (413, "body_too_large")
    assert server.refused == {"body_too_large": 1}
    await client.close()


async def test_one_client_too_many_is_hung_up_on(server: HttpServer) -> None:
    tcp, unix = server.addresses
    assert server.listener is not None
    server.listener.most = 2
    clients = [await Client.connect(tcp) for _ in range(2)]
    for client in clients:
        client.send(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await client.answer())[0] == 200
    refused = await Client.connect(tcp)
    assert await refused.end() == b""
    assert server.refused["too_many_connections"] == 1
    assert await healthy(unix)
    for client in (*clients, refused):
        await client.close()


def test_descriptors_are_left_for_the_rest() -> None:
    assert 64 <= connection_limit() <= 16_384
    assert UNIX_RESERVE < 64


async def test_a_client_that_hangs_up_ends_its_wait(server: HttpServer, engine: Engine) -> None:
    job = (await engine.submit(Submission(type="echo", delay=3_600_000))).job
    client = await Client.connect(server.addresses[0])
    client.send(f"GET /jobs/{job.id}?wait=60 HTTP/1.1\r\n".encode() + HOST + b"\r\n")
    await until_open_ends(server, 1)
    await client.close()
    await until_open_ends(server, 0)


async def test_a_follower_that_hangs_up_ends_its_stream(server: HttpServer, engine: Engine) -> None:
    job = (await engine.submit(Submission(type="echo", delay=3_600_000))).job
    client = await Client.connect(server.addresses[0])
    client.send(f"GET /jobs/{job.id}/logs?follow=1 HTTP/1.1\r\n".encode() + HOST + b"\r\n")
    await until_open_ends(server, 1)
    await client.close()
    await until_open_ends(server, 0)


async def test_closing_answers_waits_and_ends_streams(server: HttpServer, engine: Engine) -> None:
    job = (await engine.submit(Submission(type="echo", delay=3_600_000))).job
    waiting, following = [await Client.connect(server.addresses[0]) for _ in range(2)]
    waiting.send(f"GET /jobs/{job.id}?wait=60 HTTP/1.1\r\n".encode() + HOST + b"\r\n")
    following.send(f"GET /jobs/{job.id}/logs?follow=1 HTTP/1.1\r\n".encode() + HOST + b"\r\n")
    await until_open_ends(server, 2)
    await server.close()
    status, text = await waiting.answer()
    assert (status, json.loads(text)["status"]) == (200, "scheduled")
    assert (await following.end()).endswith(b"\r\n0\r\n\r\n")
    await waiting.close()
    await following.close()


async def flood(client: Client) -> None:
    """Ask and ask, and never read."""
    async with asyncio.timeout(PATIENCE):
        while True:
            client.send(b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n")
            await client.writer.drain()
            await asyncio.sleep(0)


async def test_a_client_that_does_not_read_is_cut_off(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "SEND_SECONDS", 0.05)
    client = await Client.connect(server.addresses[0])
    with pytest.raises(ConnectionError):
        await flood(client)
    client.writer.transport.abort()


async def test_a_store_that_is_gone_is_a_503(server: HttpServer, engine: Engine) -> None:
    await engine.store.close()
    client = await Client.connect(server.addresses[0])
    text = b'{"type":"echo"}'
    head = b"POST /jobs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    client.send(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
    status, answer = await client.answer()
    assert (status, json.loads(answer)["code"]) == (503, "store_unavailable")
    await client.close()


async def test_a_mistake_of_ours_is_logged_and_tells_nothing(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(call: Call) -> NoReturn:
        raise RuntimeError("a secret")

    server.app.router = Router((Route("GET", "/stumble", "stumble", stumble, "Stumble", {}),))
    client = await Client.connect(server.addresses[0])
    with caplog.at_level(logging.ERROR):
        client.send(b"GET /stumble HTTP/1.1\r\n" + HOST + b"\r\n")
        status, text = await client.answer()
    document = json.loads(text)
    assert (status, document["code"]) == (500, "internal_error")
    assert b"secret" not in text
    assert document["request_id"] in caplog.text
    assert server.refused["internal_error"] == 1
    await client.close()
