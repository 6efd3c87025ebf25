"""Both clients against a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from jobqueued.client import BlockingClient, Client, NewJob, Problem
from tests.cli.support import PATIENCE, environment
from tests.worker.support import RemoteServing

BIG = 123456789012345678901234567890
DIED = 3


@pytest.fixture
async def client(daemon: RemoteServing) -> AsyncIterator[Client]:
    async with Client(daemon.url) as client:
        yield client


@pytest.fixture
def blocking(daemon: RemoteServing) -> Iterator[BlockingClient]:
    with BlockingClient(daemon.url) as client:
        yield client


async def test_a_job_comes_back_typed_and_with_every_digit(client: Client) -> None:
    run_at = datetime.now(UTC) + timedelta(hours=1)
    job = await client.submit(
        "idle", {"n": BIG, "text": "ä"}, priority=9, max_retries=2, run_at=run_at,
        expires_in=7200, correlation_id="c", key="k",
    )  # fmt: skip
    assert (job.status, job.priority, job.max_retries) == ("scheduled", 9, 2)
    assert job.payload == {"n": BIG, "text": "ä"}
    assert (job.correlation_id, job.key, job.result) == ("c", "k", None)
    assert abs(job.run_at - run_at) < timedelta(milliseconds=1)
    assert job.expires_at is not None
    assert job.expires_at > job.run_at > job.created_at
    assert await client.get(job.id) == job


async def test_waiting_gives_the_result(client: Client) -> None:
    job = await client.submit("greet", {"name": "world"}, wait=PATIENCE)
    assert (job.status, job.result, job.is_terminal) == ("completed", {"name": "world"}, True)
    assert await client.wait(job.id) == job


async def test_a_wait_that_is_over_gives_the_job_as_it_is(client: Client) -> None:
    job = await client.submit("idle", wait=0.05)
    assert (await client.wait(job.id, 0.05)).status == "pending"


async def test_no_payload_is_an_empty_object(client: Client) -> None:
    assert (await client.submit("idle")).payload == {}


async def test_many_jobs_come_in_order_and_only_once(client: Client) -> None:
    async def jobs() -> AsyncIterator[NewJob]:
        for number in range(620):
            yield {"type": "idle", "payload": number, "correlation_id": "many"}

    ids = await client.submit_many(jobs())
    found = [job async for job in client.jobs(correlation_id="many", status=["pending", "dead"])]
    assert [job.id for job in reversed(found)] == ids
    assert [job.payload for job in reversed(found)] == list(range(620))


async def test_a_job_that_is_refused_among_many_is_named_by_its_number(client: Client) -> None:
    jobs = [NewJob(type="idle", correlation_id="refused") for _ in range(150)]
    with pytest.raises(Problem, match=r"^jobs\[150\]\.priority: ") as caught:
        await client.submit_many([*jobs, NewJob(type="idle", priority=99)])
    assert [error.field for error in caught.value.errors] == ["jobs[150].priority"]
    assert len([job async for job in client.jobs(correlation_id="refused")]) == 100


async def test_a_pace_holds_across_batches(client: Client) -> None:
    jobs = [NewJob(type="idle", correlation_id="paced", delay=60.0) for _ in range(250)]
    await client.submit_many(jobs, pace_per_second=10)
    moments = [job.run_at async for job in client.jobs(correlation_id="paced")]
    moments.sort()
    assert 24.8 < (moments[-1] - moments[0]).total_seconds() < 25 + PATIENCE
    gaps = [(b - a).total_seconds() for a, b in pairwise(moments)]
    assert sum(gap < 0.05 for gap in gaps) <= 2


async def test_a_batch_tells_how_far_it_is(client: Client) -> None:
    batch = await client.submit_batch({"type": "greet", "payload": n} for n in range(3))
    for job in batch.jobs:
        await client.wait(job.id, PATIENCE)
    state = await client.batch(batch.batch_id)
    assert (state.total, state.done, state.counts["completed"]) == (3, True, 3)


async def test_actions_and_what_they_are_refused_with(client: Client) -> None:
    later = await client.submit("greet", "now", delay=3600)
    await client.run(later.id)
    assert (await client.wait(later.id, PATIENCE)).status == "completed"
    with pytest.raises(Problem) as caught:
        await client.cancel(later.id)
    assert (caught.value.status, caught.value.code) == (409, "conflict")
    waiting = await client.submit("idle")
    assert (await client.cancel(waiting.id)).status == "cancelled"


async def test_attempts_and_output(client: Client) -> None:
    job = await client.submit("fail", wait=PATIENCE)
    (attempt,) = await client.attempts(job.id)
    assert (attempt.number, attempt.outcome, attempt.exit_code) == (1, "failed", 3)
    assert [piece async for piece in client.logs(job.id)] == [b"it went wrong\n"]
    assert [piece async for piece in client.logs(job.id, attempt=1)] == [b"it went wrong\n"]
    with pytest.raises(Problem, match="no attempt 7"):
        await anext(client.logs(job.id, attempt=7))


async def test_dead_jobs_are_corrected_replayed_and_given_up(client: Client) -> None:
    job = await client.submit("picky", {"n": BIG, "to": "bad"}, wait=PATIENCE)
    assert job.id in [one.id async for one in client.dead_jobs("picky")]
    found = await client.dead_job(job.id)
    assert (found.status, len(found.attempts), found.changes) == ("dead", 1, [])
    again = await client.replay(job.id, {"n": BIG, "to": "good"}, note="a typo")
    assert (again.payload, again.failures) == ({"n": BIG, "to": "good"}, 0)
    assert (await client.wait(job.id, PATIENCE)).status == "completed"
    (change,) = await client.changes(job.id)
    assert (change.action, change.note, change.edited) == ("replay", "a typo", True)
    assert change.payload_before == {"n": BIG, "to": "bad"}
    other = await client.submit("marked", wait=PATIENCE)
    with pytest.raises(Problem) as caught:
        await client.replay(other.id)
    assert (caught.value.status, caught.value.code) == (409, "confirm_needed")
    assert (await client.discard(other.id, "no use")).status == "discarded"
    with pytest.raises(Problem, match="discarded"):
        await client.dead_job(other.id)


def test_many_dead_jobs_are_replayed(blocking: BlockingClient) -> None:
    ids = [blocking.submit("picky", "bad", wait=PATIENCE).id for _ in range(3)]
    dry = blocking.replay_many("picky", dry_run=True)
    assert (dry.ids[-3:], dry.dry_run, dry.more) == (ids, True, False)
    before = dry.ids[-4] if dry.count > 3 else None
    first = blocking.replay_many("picky", limit=2, delay_seconds=3600, cursor=before)
    assert (first.ids, first.more, first.next_cursor) == (ids[:2], True, ids[1])
    rest = blocking.replay_many("picky", cursor=first.next_cursor, confirm=True, note="again")
    assert (rest.ids, rest.more) == (ids[2:], False)
    assert [one.note for one in blocking.changes(ids[2])] == ["again"]
    blocking.wait(ids[2], PATIENCE)
    assert ids[2] in [one.id for one in blocking.dead_jobs()]
    assert blocking.replay(ids[2]).failures == 0
    blocking.wait(ids[2], PATIENCE)
    assert blocking.dead_job(ids[2]).attempt == 3
    assert blocking.discard(ids[2], "no use").status == "discarded"


async def test_output_is_followed_to_the_end(client: Client, daemon: RemoteServing) -> None:
    job = await client.submit("gate")
    output = b""
    async for piece in client.logs(job.id, follow=True):
        output += piece
        if output == b"at the gate\n":
            await asyncio.to_thread(daemon.open_gate)
    assert output == b"at the gate\ngo\n"


async def test_a_type_nobody_knows(client: Client) -> None:
    with pytest.raises(Problem) as caught:
        await client.submit("gret")
    assert (caught.value.status, caught.value.errors[0].field) == (400, "type")


def test_the_blocking_front_does_the_same(blocking: BlockingClient) -> None:
    job = blocking.submit("greet", {"n": BIG}, wait=PATIENCE)
    assert (job.result, blocking.get(job.id)) == ({"n": BIG}, job)
    assert [one.outcome for one in blocking.attempts(job.id)] == ["completed"]
    assert (
        b"".join(blocking.logs(job.id)).strip() == json.dumps({"n": BIG}).replace(" ", "").encode()
    )
    waiting = blocking.submit("idle", correlation_id="blocking")
    assert [one.id for one in blocking.jobs(correlation_id="blocking")] == [waiting.id]
    assert blocking.wait(waiting.id, 0.05).status == "pending"
    assert blocking.cancel(waiting.id).status == "cancelled"
    batch = blocking.submit_batch([{"type": "idle", "delay": 9}])
    assert blocking.batch(batch.batch_id).counts["scheduled"] == 1
    assert blocking.run(batch.jobs[0].id).status == "pending"
    assert blocking.stats()["ready"] is True


def test_threads_share_a_blocking_client(blocking: BlockingClient) -> None:
    def submit(number: int) -> list[str]:
        jobs = (NewJob(type="idle", payload=number, correlation_id="threads") for _ in range(120))
        return blocking.submit_many(jobs)

    with ThreadPoolExecutor(4) as pool:
        ids = {job_id for part in pool.map(submit, range(4)) for job_id in part}
    assert ids == {job.id for job in blocking.jobs(correlation_id="threads")}
    assert len(ids) == 480


def test_a_blocking_client_works_on_both_sides_of_a_fork(blocking: BlockingClient) -> None:
    blocking.stats()
    child = os.fork()
    if child == 0:
        code = DIED
        try:
            blocking.submit("idle", correlation_id="child")
            code = 0
        finally:
            os._exit(code)
    blocking.submit("idle", correlation_id="parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for side in ("child", "parent"):
        assert len(list(blocking.jobs(correlation_id=side))) == 1


async def test_a_daemon_that_is_killed_costs_a_producer_nothing(tmp_path: Path) -> None:
    daemon = RemoteServing(tmp_path)
    try:
        async with Client(daemon.url) as client:
            jobs = (NewJob(type="idle", payload=number) for number in range(3000))
            submitting = asyncio.create_task(client.submit_many(jobs))
            while not [job async for job in client.jobs(type="idle")]:
                pass
            daemon.kill()
            assert not submitting.done()
            await asyncio.to_thread(daemon.start)
            ids = await submitting
            found = {job.id: job.payload async for job in client.jobs(type="idle")}
        assert [found[job_id] for job_id in ids] == list(range(3000))
        assert len(found) == 3000
    finally:
        daemon.stop()


LIGHT = """
import sys
from jobqueued.client import Unreachable
import jobqueued.client.daemon
heavy = {"aiohttp", "msgspec", "asyncio", "uvloop"} & set(sys.modules)
assert not heavy, heavy
from jobqueued.client import BlockingClient
assert "aiohttp" not in sys.modules
from jobqueued.client import Client
assert "aiohttp" in sys.modules
"""


def test_only_what_is_used_is_loaded(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LIGHT], env=environment(tmp_path), check=True)


async def test_why_a_job_does_not_run(client: Client, blocking: BlockingClient) -> None:
    await client.pause("greet", "for a test")
    job = await client.submit("greet")
    why = await client.why(job.id)
    (reason,) = why.reasons
    assert (reason.code, reason.note, why.estimated_start) == ("type_paused", "for a test", None)
    assert isinstance(reason.since, datetime)
    assert blocking.why(job.id) == why
    whole = await client.why_type("greet")
    assert [(each.code, each.jobs) for each in whole.backlog] == [("type_paused", 1)]
    assert blocking.why_type("greet") == whole
    await client.cancel(job.id)
    await client.resume("greet")


async def test_types_are_paused_and_resumed(client: Client, blocking: BlockingClient) -> None:
    paused = await client.pause("greet", "for a test")
    assert paused.paused is not None
    assert paused.paused.note == "for a test"
    job = await client.submit("greet", {"name": "later"})
    assert blocking.pause("greet").paused == paused.paused
    assert {each.name: each.paused for each in blocking.types()}["greet"] == paused.paused
    assert [each.name for each in await client.types()] == [each.name for each in blocking.types()]
    resumed = await asyncio.to_thread(blocking.resume, "greet")
    assert (resumed.paused, resumed.breaker.state) == (None, "closed")
    assert (await client.wait(job.id, PATIENCE)).status == "completed"
    assert (await client.resume("greet")).configured
