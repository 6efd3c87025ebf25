"""Receivers that are broken, slow, gone or not who they say; webhooks that are stopped."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from jobqueued.executors.http import HttpExecutor
from jobqueued.executors.interface import StopReason
from jobqueued.model.outcome import OutcomeKind
from tests.executors.conftest import until
from tests.executors.http_support import (
    Names,
    NoName,
    Receiver,
    Script,
    a_receiver,
    http_task,
    make_certificate,
    raw_server,
    read_request,
)

FULL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
async def webhooks() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with a_receiver() as running:
        yield running


def says(answer: bytes, *, then_waits: bool = False) -> Script:
    """Sends this, then hangs up, or leaves that to the other side."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()
        if then_waits:
            await reader.read()

    return script


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (b"", None, "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", None, "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", None, "did not answer in HTTP: "),
        (b"\x15\x03\x01\0\x02\x02\x46", None, "did not answer in HTTP: "),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
            200,
            "answered 200 OK, then broke off after 2 bytes of the body",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            200,
            "answered 200 OK, then broke off after 2 bytes of the body",
        ),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nno", 500, "answered 500 Oh: no"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", None, "did not answer in HTTP"),
    ],
)
async def test_broken_answers_are_tried_again(
    webhooks: HttpExecutor, answer: bytes, status: int | None, error: str
) -> None:
    async with raw_server(says(answer)) as url:
        outcome = await webhooks.run(http_task(url=url))
    assert (outcome.kind, outcome.http_status) == (OutcomeKind.FAILED, status)
    assert error in (outcome.error or "")
    assert outcome.error is not None
    assert len(outcome.error) < 500


async def test_a_refusal_with_a_broken_body_is_still_a_refusal(webhooks: HttpExecutor) -> None:
    async with raw_server(says(b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n")) as url:
        outcome = await webhooks.run(http_task(url=url))
    assert (outcome.kind, outcome.error) == (OutcomeKind.FATAL, "answered 404 No")


async def test_the_body_of_a_refusal_is_not_waited_for(
    webhooks: HttpExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueued.executors.http.REFUSAL_SECONDS", 0.05)
    head = b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nContent-Length: 9\r\n\r\nwait"
    async with raw_server(says(head, then_waits=True)) as url:
        outcome = await webhooks.run(http_task(url=url))
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, "answered 503 Busy: wait")
    assert outcome.retry_after_ms == 9_000


async def test_nobody_listens(webhooks: HttpExecutor) -> None:
    port = closed_port()
    outcome = await webhooks.run(http_task(url=f"http://127.0.0.1:{port}/hook"))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert outcome.log == f"POST http://127.0.0.1:{port}/hook\n{outcome.error}\n".encode()


async def test_a_name_that_does_not_exist() -> None:
    executor = HttpExecutor(resolver=NoName())
    outcome = await executor.run(http_task(url="http://nobody.example/hook"))
    await executor.close()
    assert outcome.kind is OutcomeKind.FAILED
    expected = "cannot find the address of nobody.example:80: Name or service not known"
    assert outcome.error == expected


async def test_a_name_that_cannot_exist(webhooks: HttpExecutor) -> None:
    host = f"{'x' * 64}.invalid"
    outcome = await webhooks.run(http_task(url=f"http://{host}/hook"))
    assert outcome.kind is OutcomeKind.FAILED
    assert (outcome.error or "").startswith(f"cannot find the address of {host}:80: ")


async def test_a_connection_takes_only_so_long() -> None:
    executor = HttpExecutor(resolver=NoName(silent=True))
    outcome = await executor.run(http_task(url="http://slow.example/", connect_timeout=50))
    await executor.close()
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == "cannot connect to slow.example:80 within 50ms"


async def test_a_connection_that_was_closed_in_the_meantime_costs_nothing(
    webhooks: HttpExecutor,
) -> None:
    """The first connection answers once and hangs up on the second request."""
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(FULL)
        await read_request(reader)

    async with raw_server(script) as url:
        outcomes = [await webhooks.run(http_task(url=url)) for _ in range(2)]
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.COMPLETED] * 2
    assert connections == 2


async def test_a_fresh_connection_that_breaks_is_not_tried_again(webhooks: HttpExecutor) -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)

    async with raw_server(script) as url:
        outcome = await webhooks.run(http_task(url=url))
    assert outcome.kind is OutcomeKind.FAILED
    assert connections == 1


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (StopReason.TIMEOUT, OutcomeKind.TIMEOUT, "timed out after 2m"),
        (StopReason.CANCELLED, OutcomeKind.CANCELLED, "cancelled"),
        (StopReason.INTERRUPTED, OutcomeKind.INTERRUPTED, "interrupted by a shutdown"),
    ],
)
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"])
async def test_stopping_hangs_up_at_once(
    webhooks: HttpExecutor, reason: StopReason, kind: OutcomeKind, text: str, answer: bytes
) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()
        asked.set()
        await reader.read()
        gone.set()

    async with raw_server(script) as url, asyncio.timeout(10):
        task = http_task(url=url)
        running = asyncio.create_task(webhooks.run(task))
        await asked.wait()
        task.stop.ask(reason)
        outcome = await running
        await gone.wait()
    assert (outcome.kind, outcome.error) == (kind, f"{text}, waiting for {url}")
    assert outcome.retry_after_ms is None
    assert outcome.log == f"POST {url}\n{outcome.error}\n".encode()


async def test_what_is_stopped_before_it_starts_is_not_sent(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    task = http_task(url=receiver.url())
    task.stop.ask(StopReason.CANCELLED)
    outcome = await webhooks.run(task)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.error == "cancelled before it was started"
    assert receiver.requests == []


async def test_cancelling_the_run_hangs_up(webhooks: HttpExecutor) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await reader.read()
        gone.set()

    async with raw_server(script) as url, asyncio.timeout(10):
        task = http_task(url=url)
        running = asyncio.create_task(webhooks.run(task))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await gone.wait()
    assert task.output.closed


async def test_closing_ends_what_is_under_way() -> None:
    executor = HttpExecutor()
    asked = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await reader.read()

    async with raw_server(script) as url, asyncio.timeout(10):
        running = asyncio.create_task(executor.run(http_task(url=url)))
        await asked.wait()
        await executor.close()
        assert (await running).kind is OutcomeKind.FAILED


async def test_an_answer_before_the_whole_payload_is_read(webhooks: HttpExecutor) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with raw_server(script) as url:
        payload = b'"' + b"x" * (8 << 20) + b'"'
        outcome = await webhooks.run(http_task(url=url, payload=payload))
    assert (outcome.kind, outcome.http_status) == (OutcomeKind.FATAL, 413)


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is needed to make a certificate"
)


@needs_openssl
async def test_tls_with_a_trusted_certificate(tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path, "hooks.example")
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    async with a_receiver(context) as receiver:
        url = receiver.url(host="hooks.example", scheme="https")
        trusting = await executor.run(http_task(url=url, ca_file=str(certificate)))
        strict = await executor.run(http_task(url=url))
        await executor.close()
    assert trusting.kind is OutcomeKind.COMPLETED
    assert strict.kind is OutcomeKind.FAILED
    expected = f"the certificate of hooks.example:{receiver.port} is not trusted: self"
    assert (strict.error or "").startswith(expected)
    assert len(receiver.requests) == 1


@needs_openssl
async def test_tls_with_the_certificate_of_another(tmp_path: Path) -> None:
    certificate, context = make_certificate(tmp_path, "other.example")
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    async with a_receiver(context) as receiver:
        url = receiver.url(host="hooks.example", scheme="https")
        outcome = await executor.run(http_task(url=url, ca_file=str(certificate)))
        await executor.close()
    assert outcome.kind is OutcomeKind.FAILED
    assert "Hostname mismatch" in (outcome.error or "")
    assert receiver.requests == []


@needs_openssl
async def test_a_renewed_ca_file_is_read_again(tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path, "hooks.example")
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    trusted = tmp_path / "trusted.pem"
    shutil.copy(certificate, trusted)
    _, context = make_certificate(tmp_path, "hooks.example")
    async with a_receiver(context) as receiver:
        task = {
            "url": receiver.url(host="hooks.example", scheme="https"),
            "ca_file": str(trusted),
        }
        before = await executor.run(http_task(**task))  # type: ignore[arg-type]
        shutil.copy(certificate, trusted)
        after = await executor.run(http_task(**task))  # type: ignore[arg-type]
        await executor.close()
    assert (before.kind, after.kind) == (OutcomeKind.FAILED, OutcomeKind.COMPLETED)


@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_a_ca_file_that_is_of_no_use(
    webhooks: HttpExecutor, receiver: Receiver, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    task = http_task(url=receiver.url(scheme="https"), ca_file=str(file))
    outcome = await webhooks.run(task)
    assert outcome.kind is OutcomeKind.FAILED
    assert (outcome.error or "").startswith(f"ca_file {file} cannot be used: ")


async def test_plain_text_where_tls_is_expected(webhooks: HttpExecutor, receiver: Receiver) -> None:
    outcome = await webhooks.run(http_task(url=receiver.url(scheme="https")))
    assert outcome.kind is OutcomeKind.FAILED
    assert "TLS error" in (outcome.error or "")


KEPT_SECRET: dict[str, Any] = {
    "headers": {"Authorization": "Bearer geheim"},
    "secrets": (b"geheim",),
}


async def told_of(executor: HttpExecutor, url: str) -> str:
    """All that people get to see of a webhook that failed."""
    outcome = await executor.run(http_task(url=f"{url}?key=geheim", **KEPT_SECRET))
    assert outcome.error is not None
    return outcome.error + (outcome.log or b"").decode()


async def test_no_secret_is_shown_with_an_answer(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    receiver.answers(500)
    assert "geheim" not in await told_of(webhooks, receiver.url())
    assert receiver.requests[0].headers["Authorization"] == "Bearer geheim"
    assert receiver.requests[0].target == "/hook?key=geheim"


async def test_no_secret_is_shown_without_a_connection(webhooks: HttpExecutor) -> None:
    nameless = HttpExecutor(resolver=NoName())
    assert "geheim" not in await told_of(nameless, "http://nobody.example/")
    await nameless.close()
    assert "geheim" not in await told_of(webhooks, f"http://127.0.0.1:{closed_port()}/")


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"]
)
async def test_no_secret_is_shown_when_a_connection_breaks(
    webhooks: HttpExecutor, answer: bytes
) -> None:
    async with raw_server(says(answer)) as url:
        assert "geheim" not in await told_of(webhooks, url)


async def test_no_secret_is_shown_when_sending_breaks(webhooks: HttpExecutor) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with raw_server(script) as url:
        payload = b'"' + b"x" * (8 << 20) + b'"'
        task = http_task(url=f"{url}?key=geheim", payload=payload)
        outcome = await webhooks.run(task)
    assert outcome.kind is OutcomeKind.FAILED
    assert re.fullmatch(r"the connection to 127\.0\.0\.1:\d+ broke: [\w ]+", outcome.error or "")


async def test_userinfo_is_sent_but_not_shown(webhooks: HttpExecutor, receiver: Receiver) -> None:
    url = receiver.url().replace("//", "//ada:geheim@")
    outcome = await webhooks.run(http_task(url=url))
    assert receiver.requests[0].headers["Authorization"].startswith("Basic ")
    assert b"geheim" not in (outcome.log or b"")
    assert b"ada" not in (outcome.log or b"")


async def test_a_slow_receiver_is_waited_for(webhooks: HttpExecutor, receiver: Receiver) -> None:
    """Longer than the connect timeout, which does not count once there is a connection."""
    go_on = asyncio.Event()

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        await go_on.wait()
        return web.Response()

    receiver.reply = reply
    task = http_task(url=receiver.url(), connect_timeout=40)
    running = asyncio.create_task(webhooks.run(task))
    await until(lambda: len(receiver.requests) == 1)
    began = time.monotonic()
    await until(lambda: time.monotonic() - began > 0.1)
    go_on.set()
    assert (await running).kind is OutcomeKind.COMPLETED
