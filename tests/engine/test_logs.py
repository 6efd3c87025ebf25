"""The output of a job, read and followed across its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.errors import NotFound
from jobqueued.model.job import Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.engine.support import (
    PATIENCE,
    Gate,
    claim,
    claim_new,
    settle_down,
    started,
    submit,
    take_up,
    until,
)
from tests.engine.test_changes import waiters


async def read(pieces: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return b"".join([piece async for piece in pieces])


async def first(pieces: AsyncIterator[bytes]) -> bytes:
    """The first piece that is not empty."""
    async with asyncio.timeout(PATIENCE):
        async for piece in pieces:
            if piece:
                return piece
    raise AssertionError("the output ended before it began")


async def test_a_job_that_never_ran_has_an_empty_log(engine: Engine) -> None:
    job = await submit(engine)
    assert await engine.log(job.id, None) == b""
    with pytest.raises(NotFound):
        await engine.log(job.id, 1)
    with pytest.raises(NotFound):
        await engine.log("nobody", None)


async def test_the_latest_attempt_is_shown_unless_another_is_named(live: Engine) -> None:
    job = await submit(live, "again")
    await live.wait(job.id, 15)
    assert await live.log(job.id, None) == b"attempt 3\n"
    assert await live.log(job.id, 1) == b"attempt 1\n"
    for number in (0, 4):
        with pytest.raises(NotFound):
            await live.log(job.id, number)


async def test_a_running_job_shows_what_it_wrote_so_far(live: Engine) -> None:
    job = await submit(live, "gate")
    running = await started(live, job.id)
    await until(lambda: running.task.output.total > 0)
    assert await live.log(job.id, None) == b"begun\n"


async def test_a_log_is_followed_from_before_the_start(live: Engine) -> None:
    job = await submit(live, "again", delay=60_000)
    following = asyncio.create_task(read(live.follow_log(job.id, None)))
    await settle_down()
    await live.run_now(job.id)
    assert await following == b"attempt 1\nattempt 2\nattempt 3\n"


async def test_followers_miss_nothing_however_quick_the_attempts(live: Engine) -> None:
    for _ in range(5):
        job = await submit(live, "again", delay=60_000)
        following = [asyncio.create_task(read(live.follow_log(job.id, None))) for _ in range(5)]
        await settle_down()
        await live.run_now(job.id)
        assert set(await asyncio.gather(*following)) == {b"attempt 1\nattempt 2\nattempt 3\n"}


async def test_output_comes_as_it_is_written(live: Engine, gate: Gate) -> None:
    job = await submit(live, "gate")
    pieces = live.follow_log(job.id, None)
    assert await first(pieces) == b"begun\n"
    assert (await live.job(job.id)).status is Status.PROCESSING
    gate.open("finished")
    assert await read(pieces) == b"finished\n"


async def test_one_attempt_is_followed_to_its_own_end(live: Engine) -> None:
    job = await submit(live, "again", delay=60_000)
    following = asyncio.create_task(read(live.follow_log(job.id, 2)))
    await live.run_now(job.id)
    assert await following == b"attempt 2\n"


async def test_a_finished_job_is_followed_from_disk(live: Engine) -> None:
    job = await submit(live, "again")
    await live.wait(job.id, 15)
    assert await read(live.follow_log(job.id, None)) == b"attempt 3\n"
    assert await read(live.follow_log(job.id, 1)) == b"attempt 1\n"


async def test_a_job_that_is_cancelled_before_it_ran_ends_its_followers(engine: Engine) -> None:
    job = await submit(engine, delay=60_000)
    following = asyncio.create_task(read(engine.follow_log(job.id, None)))
    await settle_down()
    await engine.cancel(job.id)
    assert await following == b""


async def test_a_follower_that_leaves_is_forgotten(live: Engine) -> None:
    job = await submit(live, "gate")
    following = asyncio.create_task(read(live.follow_log(job.id, None)))
    await started(live, job.id)
    await settle_down()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await settle_down()
    assert waiters(live.shared.changes) == 0


async def test_an_attempt_on_disk_that_is_about_to_start_is_waited_for(
    engine: Engine, settler: Settler
) -> None:
    """A reader may see the claim before the dispatcher has been told of it."""
    claimed = await claim_new(engine)
    following = asyncio.create_task(read(engine.follow_log(claimed.lease.job_id, None)))
    await until(lambda: waiters(engine.shared.changes) > 0)
    await engine.job(claimed.lease.job_id)
    running = take_up(engine, claimed)
    engine.shared.changes.notify(claimed.lease.job_id)
    running.task.output.write(b"output")
    await engine.job(claimed.lease.job_id)
    running.task.output.close()
    outcome = Outcome(kind=OutcomeKind.COMPLETED, log=running.task.output.snapshot())
    await settler.settle([(claimed, outcome)])
    engine.shared.running.remove(running)
    assert await following == b"output"


async def test_the_attempts_of_a_job_include_the_one_under_way(
    engine: Engine, settler: Settler
) -> None:
    claimed = await claim_new(engine)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.INTERRUPTED))])
    await claim(engine)
    done, under_way = await engine.attempts(claimed.lease.job_id)
    assert (done.number, done.outcome) == (1, "interrupted")
    assert (under_way.number, under_way.outcome, under_way.finished_at) == (2, None, None)
