"""Receivers that send and send, and never come to the point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobqueued.executors.http import HttpExecutor
from jobqueued.executors.http_patience import MOST_INTERIM
from jobqueued.model.outcome import OutcomeKind
from tests.executors.http_support import Script, http_task, raw_server, read_request

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
FULL = b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"[".ljust(69_999) + b"]"


@pytest.fixture
async def webhooks() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


def repeats(piece: bytes, gone: asyncio.Event) -> Script:
    """Sends the same for ever."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        try:
            while not writer.is_closing():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            gone.set()

    return script


@pytest.mark.parametrize("count", [0, 1, MOST_INTERIM])
async def test_hints_may_come_before_the_answer(webhooks: HttpExecutor, count: int) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read_request(reader)
            writer.write(HINTS * count + FULL)
        await reader.read()

    async with raw_server(script) as url:
        for _ in range(2):
            outcome = await webhooks.run(http_task(url=url))
            assert (outcome.kind, outcome.http_status) == (OutcomeKind.COMPLETED, 200)


@pytest.mark.parametrize("piece", [HINTS, HINTS * 5000, HINTS[:-2] * 5000, HINTS * 50 + FULL])
async def test_hints_without_end_are_hung_up_on(webhooks: HttpExecutor, piece: bytes) -> None:
    gone = asyncio.Event()
    async with raw_server(repeats(piece, gone)) as url:
        outcome = await webhooks.run(http_task(url=url))
        async with asyncio.timeout(10):
            await gone.wait()
    assert outcome.kind is OutcomeKind.FAILED
    assert "did not answer in HTTP: " in (outcome.error or "")
