"""What a worker does with jobs, against a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from msgspec import Raw

from jobqueued.client import Client, NewJob, Problem
from jobqueued.client.link import Link
from jobqueued.worker import Context, Fatal, Retry, Stopped, Worker
from tests.cli.support import PATIENCE
from tests.worker.support import RemoteServing, in_state, until, working

BIG = 123456789012345678901234567890


async def test_an_async_handler_gets_the_payload_and_gives_the_result(
    daemon: RemoteServing, client: Client
) -> None:
    async def double(payload: Any) -> Any:
        return {"twice": payload["n"] * 2}

    async with working(daemon, double):
        job = await client.submit("task", {"n": BIG}, wait=PATIENCE)
    assert (job.status, job.result, job.attempt) == ("completed", {"twice": 2 * BIG}, 1)


async def test_a_plain_handler_runs_in_a_thread(daemon: RemoteServing, client: Client) -> None:
    def where(payload: Any) -> str:
        return threading.current_thread().name

    async with working(daemon, where):
        job = await client.submit("task", wait=PATIENCE)
    assert job.result.startswith("jobqueued-worker-")


async def test_plain_handlers_run_side_by_side(daemon: RemoteServing, client: Client) -> None:
    together = threading.Barrier(3, timeout=PATIENCE)

    def meet(payload: Any) -> None:
        together.wait()

    async with working(daemon, meet, concurrency=3):
        ids = await client.submit_many({"type": "task"} for _ in range(3))
        jobs = [await client.wait(job_id, PATIENCE) for job_id in ids]
    assert [job.status for job in jobs] == ["completed"] * 3


async def test_a_second_argument_is_the_context(daemon: RemoteServing, client: Client) -> None:
    async def tell(payload: Any, context: Context) -> Any:
        context.log.info("at work")
        return [context.id, context.type, context.attempt, context.payload, context.key,
                context.priority, context.payload_json.decode(), context.url]  # fmt: skip

    async with working(daemon, tell):
        job = await client.submit("task", {"a": 1.50}, key="k", priority=7, wait=PATIENCE)
    assert job.result == [job.id, "task", 1, {"a": 1.5}, "k", 7, '{"a":1.5}', daemon.url]


async def test_progress_is_seen_while_the_job_runs(daemon: RemoteServing, client: Client) -> None:
    gate = asyncio.Event()

    async def slow(payload: Any, context: Context) -> None:
        context.progress(10)
        context.progress(40, "resizing")
        await gate.wait()

    async def is_told() -> bool:
        progress = (await client.get(job.id)).progress
        return progress is not None and (progress.percent, progress.message) == (40, "resizing")

    async with working(daemon, slow):
        job = await client.submit("task")
        await until(is_told)
        gate.set()
        assert (await client.wait(job.id, PATIENCE)).status == "completed"


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        (Retry("not yet", after=3600), "retrying", "not yet"),
        (Fatal("never"), "dead", "never"),
        (ValueError("went wrong"), "retrying", "ValueError: went wrong (test_worker.py:"),
        (SystemExit(3), "retrying", "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_what_a_handler_raises_decides_how_the_job_goes_on(
    daemon: RemoteServing,
    client: Client,
    raised: BaseException,
    status: str,
    told: str,
    plain: bool,
) -> None:
    def refuse(payload: Any) -> None:
        raise raised

    async def refuse_async(payload: Any) -> None:
        raise raised

    async with working(daemon, refuse if plain else refuse_async):
        job = await client.submit("task")
        job = await in_state(client, job.id, status)
    assert job.last_error is not None
    assert job.last_error.startswith(told)
    (attempt,) = await client.attempts(job.id)
    assert attempt.outcome == ("fatal" if status == "dead" else "failed")


async def test_retry_after_is_kept(daemon: RemoteServing, client: Client) -> None:
    seen = []

    async def second_time(payload: Any, context: Context) -> None:
        seen.append(context.attempt)
        if context.attempt == 1:
            raise Retry(after=0.1)

    async with working(daemon, second_time):
        job = await client.submit("task", wait=PATIENCE)
    assert (job.status, seen, job.failures) == ("completed", [1, 2], 1)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "not JSON"),
        (object(), "not JSON"),
        ("\ud800", "not JSON"),
        ("x" * 70_000, "larger than 64KiB"),
    ],
)
async def test_a_value_that_is_no_result_ends_the_job(
    daemon: RemoteServing, client: Client, value: Any, told: str
) -> None:
    async def give(payload: Any) -> Any:
        return value

    async with working(daemon, give):
        job = await client.submit("task", wait=PATIENCE)
    assert job.status == "dead"
    assert told in (job.last_error or "")


async def test_an_outcome_the_daemon_refuses_holds_up_no_other(
    daemon: RemoteServing, client: Client
) -> None:
    together = asyncio.Barrier(5)

    async def give(payload: Any) -> Any:
        await together.wait()
        return Raw(b"[broken") if payload == "bad" else payload

    async with working(daemon, give):
        ids = await client.submit_many(
            NewJob(type="task", payload=payload) for payload in ("a", "b", "bad", "c", "d")
        )
        jobs = [await client.wait(job_id, PATIENCE) for job_id in ids]
    assert [job.result for job in jobs] == ["a", "b", None, "c", "d"]
    assert [job.status == "completed" for job in jobs] == [True, True, False, True, True]
    assert (jobs[2].last_error or "").startswith("the outcome was refused")


async def test_outcomes_that_are_not_taken_hold_up_new_jobs(
    daemon: RemoteServing, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueued.worker.outbox.FULL", 1)

    async def nothing(payload: Any) -> None:
        pass

    ids = await client.submit_many({"type": "task"} for _ in range(20))
    async with working(daemon, nothing, concurrency=2):
        assert {(await client.wait(one, PATIENCE)).status for one in ids} == {"completed"}


async def test_cancelling_stops_an_async_handler(daemon: RemoteServing, client: Client) -> None:
    stopped = asyncio.Event()

    async def forever(payload: Any, context: Context) -> None:
        try:
            while True:
                context.progress(1)
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async with working(daemon, forever):
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
        await client.cancel(job.id)
        job = await client.wait(job.id, PATIENCE)
        assert (job.status, stopped.is_set()) == ("cancelled", True)


async def test_cancelling_stops_a_plain_handler_where_it_reports(
    daemon: RemoteServing, client: Client
) -> None:
    ended = []

    def forever(payload: Any, context: Context) -> None:
        try:
            while not threading.Event().wait(0.02):
                context.progress(1)
        except Stopped as stop:
            ended.append((str(stop), context.stopping))
            raise

    async with working(daemon, forever):
        job = await client.submit("task")
        await in_state(client, job.id, "processing")
        await client.cancel(job.id)
        assert (await client.wait(job.id, PATIENCE)).status == "cancelled"
    assert ended == [("the job was cancelled", True)]


async def test_the_lease_of_a_running_job_is_renewed(daemon: RemoteServing, client: Client) -> None:
    gate = asyncio.Event()

    async def slow(payload: Any) -> None:
        await gate.wait()

    async with working(daemon, slow, kind="short"):
        job = await client.submit("short")
        first = (await in_state(client, job.id, "processing")).lease_expires_at

        async def is_renewed() -> bool:
            expires_at = (await client.get(job.id)).lease_expires_at
            return first is not None and expires_at is not None and expires_at > first

        await until(is_renewed)
        gate.set()
        job = await client.wait(job.id, PATIENCE)
    assert (job.status, job.attempt) == ("completed", 1)


async def test_a_handler_is_stopped_when_its_time_is_up(
    daemon: RemoteServing, client: Client
) -> None:
    stopped = asyncio.Event()

    async def too_slow(payload: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(daemon, too_slow, kind="timed"):
        job = await client.submit("timed")
        await until(stopped.is_set)
        job = await in_state(client, job.id, "retrying", "dead")
        assert [one.outcome for one in await client.attempts(job.id)] == ["timeout"]


async def test_many_jobs_go_in_few_calls(
    daemon: RemoteServing, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    exchange = Link.exchange

    async def counted(link: Link, method: str, path: str, *rest: Any) -> bytes:
        calls[path] += 1
        return await exchange(link, method, path, *rest)

    async def nothing(payload: Any) -> None:
        pass

    ids = await client.submit_many({"type": "task"} for _ in range(300))
    monkeypatch.setattr(Link, "exchange", counted)
    async with working(daemon, nothing, concurrency=100):
        jobs = [await client.wait(job_id, PATIENCE) for job_id in ids]
    assert {job.status for job in jobs} == {"completed"}
    assert calls["/leases"] <= 30
    assert calls["/leases/settle"] <= 30


async def test_no_more_jobs_are_taken_than_run(daemon: RemoteServing, client: Client) -> None:
    gate = asyncio.Event()
    running = 0
    most = 0

    async def counted(payload: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    async with working(daemon, counted, concurrency=2):
        ids = await client.submit_many({"type": "task"} for _ in range(5))
        await until(lambda: running == 2)
        states = [(await client.get(job_id)).status for job_id in ids]
        assert sorted(states) == ["pending"] * 3 + ["processing"] * 2
        gate.set()
        assert {(await client.wait(one, PATIENCE)).status for one in ids} == {"completed"}
    assert most == 2


async def test_a_type_nobody_knows_is_an_error(daemon: RemoteServing) -> None:
    async def nothing(payload: Any) -> None:
        pass

    with pytest.raises(Problem, match="tsak"):
        await Worker(daemon.url, {"tsak": nothing}).serve()


def test_a_handler_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be called"):
        Worker("http://localhost", {"task": lambda: None})
    with pytest.raises(ValueError, match="at least one handler"):
        Worker("http://localhost", {})
