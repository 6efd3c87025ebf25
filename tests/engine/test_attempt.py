"""One attempt: whatever happens in it, it ends settled and its worker is free again."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from jobqueued.engine.service import Engine
from jobqueued.model.job import Claimed, Job, Status
from tests.engine.support import (
    claim_new,
    dispatch,
    started,
    submit,
    take_up,
    until,
    wait_for,
)


async def perform(engine: Engine, claimed: Claimed) -> None:
    """Give a claimed job to its worker; come back when it is done."""
    engine.pools[claimed.pool].reserve([claimed.worker])
    engine.pools[claimed.pool].start(take_up(engine, claimed))
    await engine.shared.running.wait_until_empty()
    await until(lambda: engine.pools[claimed.pool].busy == 0)


def damage_payload(engine: Engine, job: Job) -> None:
    connection = sqlite3.connect(engine.config.store.path)
    with connection:
        connection.execute("UPDATE payloads SET payload = CAST('{\"a\":1}' AS BLOB)")
    connection.close()


async def test_an_executor_that_fails_costs_one_attempt(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no executor of this kind, which is the plainest way to fail."""
    claimed = await claim_new(engine)
    await perform(engine, claimed)
    job = await engine.job(claimed.lease.job_id)
    assert (job.status, job.failures) == (Status.RETRYING, 1)
    assert (job.last_error or "").startswith("the executor failed")
    assert engine.shared.meter.totals["executor_errors"] == 1
    assert "executor failed on" in caplog.text
    assert sorted(engine.pools["default"].idle) == [f"default-{n}" for n in range(1, 5)]


async def test_a_damaged_payload_is_never_run(engine: Engine) -> None:
    job = await submit(engine)
    damage_payload(engine, job)
    await dispatch(engine)
    found = await wait_for(engine, job.id, Status.DEAD)
    assert "checksum" in (found.last_error or "")
    assert engine.shared.meter.totals["executor_errors"] == 0


async def test_a_store_that_is_gone_does_not_take_the_worker_along(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = await claim_new(engine)
    await engine.store.close()
    await perform(engine, claimed)
    assert f"outcome of {claimed.lease.job_id} not written" in caplog.text


async def test_output_is_in_the_log_when_the_job_is_done(live: Engine) -> None:
    job = await submit(live, "again", max_retries=0)
    assert (await live.wait(job.id, 15)).status is Status.DEAD
    assert await live.log(job.id, None) == b"attempt 1\n"


async def test_an_attempt_that_takes_too_long_is_a_timeout(live: Engine) -> None:
    job = await submit(live, "stubborn", max_retries=0)
    done = await live.wait(job.id, 15)
    assert (done.status, done.failures) == (Status.DEAD, 1)
    assert "timed out after 300ms" in (done.last_error or "")
    (attempt,) = await live.attempts(job.id)
    assert attempt.outcome == "timeout"


async def test_a_job_cancelled_while_it_times_out_is_cancelled(live: Engine) -> None:
    job = await submit(live, "stubborn")
    running = await started(live, job.id)
    await running.task.stop.asked.wait()
    assert (await live.cancel(job.id)).status is Status.PROCESSING
    assert (await live.wait(job.id, 15)).status is Status.CANCELLED


async def test_a_running_job_can_be_cancelled(live: Engine) -> None:
    job = await submit(live, "gate")
    await started(live, job.id)
    await live.cancel(job.id)
    done = await live.wait(job.id, 15)
    assert (done.status, done.failures) == (Status.CANCELLED, 0)


async def test_a_cancel_at_any_moment_is_the_end(live: Engine) -> None:
    """Between attempts, while one starts, as one fails: what was cancelled does not run on."""
    for moment in range(20):
        job = await submit(live, "again", max_retries=20)
        await asyncio.sleep(moment / 1000)
        await live.cancel(job.id)
        assert (await live.wait(job.id, 15)).status is Status.CANCELLED


async def test_a_shutdown_interrupts_without_a_failure(live: Engine) -> None:
    job = await submit(live, "gate", max_retries=0)
    await started(live, job.id)
    live.shared.draining = True
    live.shared.running.stop_all(kill=False)
    await live.shared.running.wait_until_empty()
    found = await live.job(job.id)
    assert (found.status, found.failures, found.attempt) == (Status.PENDING, 0, 1)
