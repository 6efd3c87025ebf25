"""Heartbeats, with a daemon whose every answer is written by the test."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobqueued import clock
from jobqueued.client.address import Address
from jobqueued.client.link import Link
from jobqueued.client.models import LeasedJob
from jobqueued.worker.held import Held, StopReason, TooLate, take
from jobqueued.worker.pulse import OVERSLEPT, Pulse
from jobqueued.worker.report import completed
from tests.client.support import JOB, Server, answer, bodies, problem_answer
from tests.worker.support import until

AWAY = problem_answer("503 Service Unavailable", "shutting_down", "Retry-After: 0")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    path = str(tmp_path / "server.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    running = Server(listener, Address(path))
    yield running
    running.close()


def leased(token: str, seconds: float = 60.0, behind: float = 0.0) -> Held:
    """A job leased just now from a daemon whose clock is behind ours."""
    now = datetime.now(UTC) - timedelta(seconds=behind)
    ends = (now + timedelta(seconds=seconds)).isoformat()
    lease = {"token": token, "expires_at": ends, "deadline": ends, "expires_in_seconds": seconds}
    fields = JOB | {"started_at": now.isoformat(), "lease": lease, "status": "processing"}
    asked_at = clock.monotonic()
    return take(msgspec.json.decode(json.dumps(fields), type=LeasedJob), asked_at, asked_at)


def heard(*states: tuple[str, str], seconds: float = 60.0) -> bytes:
    leases = [
        {"token": token, "status": status, "expires_in_seconds": seconds}
        | ({"expires_in_seconds": None} if status == "stale" else {})
        for token, status in states
    ]
    return answer(json.dumps({"leases": leases}).encode())


@asynccontextmanager
async def beating(
    server: Server | SilentServer, *held: Held, lease: float | None = None
) -> AsyncIterator[Pulse]:
    link = Link([server.address], None, connections=1)
    registry = {one.token: one for one in held}
    pulse = Pulse(link, registry, lease)
    task = asyncio.create_task(pulse.run())
    try:
        yield pulse
    finally:
        task.cancel()
        await asyncio.wait([task])
        await link.close()


@pytest.mark.parametrize("behind", [0.0, 3600.0, -3600.0])
def test_clocks_may_differ(behind: float) -> None:
    held, now = leased("t", seconds=30, behind=behind), clock.monotonic()
    assert 29 < held.expires_at - now < 31
    assert 9 < held.beat_at - now < 11


async def test_one_call_renews_every_lease_that_is_nearly_due(server: Server) -> None:
    due, soon, later = leased("due"), leased("soon"), leased("later")
    due.beat_at -= 20
    soon.beat_at -= 10
    later.beat_at += 30
    server.answers.append(heard(("due", "ok"), ("soon", "ok")))
    async with beating(server, due, soon, later, lease=45):
        await until(lambda: due.beat_at > clock.monotonic())
    assert bodies(server.requests) == [
        {"leases": [{"token": name, "extend_seconds": 45.0} for name in ("due", "soon")]}
    ]


async def test_what_was_not_heard_is_said_again(server: Server) -> None:
    held = leased("t")
    held.progress = (40.0, "half")
    server.answers += [AWAY, AWAY, heard(("t", "ok"))]
    async with beating(server, held):
        await until(lambda: len(server.requests) == 3)
        await until(lambda: not held.has_news)
    told: list[Any] = bodies(server.requests)
    assert told[0] == {"leases": [{"token": "t", "progress": {"percent": 40.0, "message": "half"}}]}
    assert told == [told[0]] * 3


async def test_a_stale_lease_and_a_cancelled_job_are_stopped(server: Server) -> None:
    stale, cancelled = leased("stale"), leased("cancelled")
    stale.extend = cancelled.extend = 30.0
    server.answers.append(heard(("stale", "stale"), ("cancelled", "cancelled")))
    async with beating(server, stale, cancelled):
        await until(lambda: stale.stopped and cancelled.stopped)
    assert (stale.stopped, cancelled.stopped) == (StopReason.LOST, StopReason.CANCELLED)
    assert [one["extend_seconds"] for one in bodies(server.requests)[0]["leases"]] == [30.0, 30.0]


class SilentServer:
    """Says nothing to a heartbeat until it is let."""

    def __init__(self, place: Path) -> None:
        self.address = Address(str(place / "silent.sock"))
        self.asked = 0
        self.speaks = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> SilentServer:
        assert self.address.path is not None
        self._server = await asyncio.start_unix_server(self._serve, self.address.path)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.speaks.set()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.add(asyncio.create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        await self.speaks.wait()
        writer.write(heard(("t", "ok")))
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def in_silence(place: Path) -> AsyncIterator[tuple[SilentServer, Held]]:
    """A short lease that runs out while nobody answers."""
    async with SilentServer(place) as silent:
        held = leased("t", seconds=0.5)
        held.beat_at = clock.monotonic()
        async with beating(silent, held):
            await until(lambda: silent.asked)
            yield silent, held


async def test_a_daemon_here_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    """It gives the job to nobody else, and hears of us before it does."""
    async with in_silence(tmp_path) as (silent, held):
        await until(lambda: clock.monotonic() > held.expires_at + 2 * OVERSLEPT)
        assert held.stopped is None
        silent.speaks.set()
        await until(lambda: held.expires_at > clock.monotonic())
        assert held.stopped is None


async def test_a_daemon_elsewhere_that_does_not_answer_may_have_lost_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Address, "is_here", False)
    async with in_silence(tmp_path) as (_, held):
        await until(lambda: held.stopped is StopReason.LOST)
        assert clock.monotonic() >= held.expires_at


async def test_who_stood_still_trusts_nobody(tmp_path: Path) -> None:
    async with in_silence(tmp_path) as (_, held):
        # Nothing in this process goes on meanwhile.
        time.sleep(0.5 + 2 * OVERSLEPT)  # noqa: ASYNC251
        await until(lambda: held.stopped is StopReason.LOST)


@pytest.mark.parametrize(("host", "is_here"), [("::1", True), ("127.0.0.2", True), ("a", False)])
def test_which_addresses_are_here(host: str, is_here: bool) -> None:
    assert Address(None, host).is_here is is_here


def test_a_job_that_was_long_on_its_way_is_not_begun() -> None:
    held = leased("t", seconds=5)
    held.check()
    late = take(held.job, clock.monotonic() - 6, clock.monotonic())
    with pytest.raises(TooLate, match="the lease is lost"):
        late.check()


async def test_what_has_an_outcome_is_renewed_though_its_lease_may_be_over(server: Server) -> None:
    held = leased("t", seconds=0.1)
    held.report = completed("t", None)
    server.answers += [AWAY] * 3 + [heard(("t", "ok"))]
    async with beating(server, held):
        await until(lambda: held.expires_at > clock.monotonic() + 1)
        assert held.stopped is None


async def test_a_lease_that_cannot_be_renewed_is_lost_when_it_ends(server: Server) -> None:
    held = leased("t", seconds=0.5)
    held.beat_at = clock.monotonic()
    server.answers += [AWAY] * 20
    async with beating(server, held):
        await until(lambda: held.stopped)
        assert clock.monotonic() >= held.expires_at
    assert held.stopped is StopReason.LOST
    assert server.requests
