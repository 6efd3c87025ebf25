"""Heartbeats, with a daemon whose every answer is written by the test."""

from __future__ import annotations

import asyncio
import json
import socket
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
from jobqueued.worker.held import Held, StopReason, take
from jobqueued.worker.pulse import Pulse
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
async def beating(server: Server, *held: Held, lease: float | None = None) -> AsyncIterator[Pulse]:
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


async def test_a_lease_that_cannot_be_renewed_is_lost_when_it_ends(server: Server) -> None:
    held = leased("t", seconds=0.5)
    held.beat_at = clock.monotonic()
    server.answers += [AWAY] * 20
    async with beating(server, held):
        await until(lambda: held.stopped)
        assert clock.monotonic() >= held.expires_at
    assert held.stopped is StopReason.LOST
    assert server.requests
