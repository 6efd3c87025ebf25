"""Webhooks whose receiver is down, sick or hostile: its jobs bear it, nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobqueued.client import Client, Job
from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, resident_megabytes
from tests.api.support import PATIENCE, free_port
from tests.executors.http_support import Script, a_receiver, raw_server, read_head
from tests.worker.support import in_state, until

HOOKS = """
[pools.default]
workers = 5
[defaults]
backoff = {{ base = "1s", factor = 1.0, max = "5s", jitter = "0s" }}
[types.hook]
http = {{ url = "http://127.0.0.1:{port}/hook" }}
max_retries = 6
[types.anywhere]
http = {{ url_from = "payload.url", allowed_hosts = ["127.0.0.1"], allow_private = true }}
timeout = "1s"
max_retries = 0
[types.other]
command = ["cat"]
result = "stdout"
"""
JOBS = 8
AT_ONCE = 4
"""Jobs of one type at a time: its share of the pool."""


class Hooks:
    """A daemon whose webhooks go to a port where nobody need be."""

    def __init__(self, serve: Serve) -> None:
        self.port = free_port()
        self.serving: Serving = serve(HOOKS.format(port=self.port))
        self.client = Client(f"unix:{self.serving.socket_path}")

    async def other_job(self, payload: object) -> Any:
        """The result of a job that has nothing to do with webhooks."""
        job = await self.client.submit("other", payload, wait=PATIENCE)
        return job.attempt, job.result

    async def resting_until(self) -> str | None:
        until: str | None = (await self.client.stats())["types"]["hook"]["resting_until"]
        return until

    async def outcomes(self, job: Job) -> list[str | None]:
        return [attempt.outcome for attempt in await self.client.attempts(job.id)]


@pytest.fixture
async def hooks(serve: Serve) -> AsyncIterator[Hooks]:
    hooks = await asyncio.to_thread(Hooks, serve)
    yield hooks
    await hooks.client.close()


async def test_a_receiver_that_is_down_and_then_sick_and_then_well(hooks: Hooks) -> None:
    client = hooks.client
    ids = await client.submit_many({"type": "hook", "payload": number} for number in range(JOBS))
    for job_id in ids:
        job = await in_state(client, job_id, "retrying")
        assert (job.last_error or "").endswith(f"127.0.0.1:{hooks.port}: Connection refused")
    assert await hooks.other_job("while it is down") == (1, "while it is down")

    async with a_receiver(port=hooks.port) as receiver:
        receiver.answers(503, Retry_After="4")
        await until(hooks.resting_until)
        turned_away = len(receiver.requests)
        receiver.answers(200)
        await check_the_pause(hooks, receiver.url())
        assert await hooks.resting_until() is not None, "all this was meant to be in the pause"
        assert len(receiver.requests) <= turned_away + AT_ONCE
        jobs = [await client.wait(job_id, PATIENCE) for job_id in ids]
    attempts = [await client.attempts(job_id) for job_id in ids]
    for job, tried in zip(jobs, attempts, strict=True):
        outcomes = [attempt.outcome for attempt in tried]
        assert (job.status, outcomes[-1]) == ("completed", "completed")
        assert outcomes.count("failed") == job.failures <= job.max_retries
        assert set(outcomes) <= {"failed", "interrupted", "completed"}
    told = [attempt for tried in attempts for attempt in tried if attempt.http_status == 503]
    assert 1 <= len(told) <= AT_ONCE, "whoever came later has only waited"


async def check_the_pause(hooks: Hooks, url: str) -> None:
    """Others go on; a job that may go anywhere waits when it is to go there, and says so."""
    assert await hooks.other_job("while it rests") == (1, "while it rests")
    job = await in_state(
        hooks.client, (await hooks.client.submit("anywhere", {"url": url})).id, "scheduled"
    )
    [attempt] = await hooks.client.attempts(job.id)
    assert (attempt.outcome, job.failures) == ("interrupted", 0)
    assert (attempt.error or "").startswith("host 127.0.0.1 asked for a pause until 20")
    await hooks.client.cancel(job.id)


async def test_a_receiver_that_stays_down_costs_no_more_than_the_retries(hooks: Hooks) -> None:
    job = await hooks.client.submit("hook", max_retries=1, wait=PATIENCE)
    assert (job.status, job.attempt, job.failures) == ("dead", 2, 2)
    assert await hooks.outcomes(job) == ["failed", "failed"]


def sends(head: bytes, piece: bytes, pause: float = 0.0) -> Script:
    """Sends the head once and the piece for ever."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return script


OK = b"HTTP/1.1 200 OK\r\n"
BLOCK = b"x" * 65536
HOSTILE: dict[str, tuple[Script, str, str]] = {
    "ten gigabytes": (sends(OK + b"Content-Length: 10737418240\r\n\r\n", BLOCK), "completed", ""),
    "chunks": (
        sends(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + BLOCK + b"\r\n"),
        "completed",
        "",
    ),
    "slow body": (sends(OK + b"Content-Length: 9999\r\n\r\n", b"x", 0.01), "timeout", "timed out"),
    "slow head": (sends(OK + b"X: ", b"x", 0.01), "timeout", "timed out after 1s"),
    "headers": (sends(OK, b"X: y\r\n" * 1000), "failed", "did not answer in HTTP"),
    "hints": (sends(b"", b"HTTP/1.1 103 Hi\r\n\r\n" * 9), "failed", "did not answer in HTTP"),
    "noise": (sends(b"", bytes(range(256))), "failed", "did not answer in HTTP"),
    "redirect": (
        sends(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", BLOCK),
        "fatal",
        "answered 302 Found: redirects are not followed",
    ),
}


async def test_hostile_receivers_cost_their_own_jobs_and_no_memory(hooks: Hooks) -> None:
    before = resident_megabytes(hooks.serving.process.pid)
    results = await asyncio.gather(*(send_to(hooks, script) for script, _, _ in HOSTILE.values()))
    expected = [(outcome, error) for _, outcome, error in HOSTILE.values()]
    for (found, said), (outcome, error) in zip(results, expected, strict=True):
        assert found == outcome
        assert error in said
    assert await hooks.other_job("unharmed") == (1, "unharmed")
    assert resident_megabytes(hooks.serving.process.pid) < before + 20


async def send_to(hooks: Hooks, script: Script) -> tuple[str | None, str]:
    """How the job ended, and what it was told."""
    async with raw_server(script) as url:
        job = await hooks.client.submit("anywhere", {"url": url}, wait=PATIENCE)
    return (await hooks.outcomes(job))[-1], job.last_error or ""
