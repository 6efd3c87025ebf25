"""Leases of what runs here are extended, and its output is put on disk as it grows."""

from __future__ import annotations

import asyncio

from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.executors.interface import StopReason
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import HandClock, claim_new, take_up

LEASE = 10_000
COMPLETED = Outcome(kind=OutcomeKind.COMPLETED, log=b"all of it")
LOST = Outcome(kind=OutcomeKind.LOST, error="taken away")


async def pass_half_time(engine: Engine, hand_clock: HandClock) -> None:
    hand_clock.advance(LEASE // 2)
    await engine.shared.keeper.run_once()


async def test_without_running_jobs_it_sleeps(engine: Engine) -> None:
    assert await engine.shared.keeper.run_once() is None


async def test_a_lease_is_extended_at_half_time(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine)
    running = take_up(engine, claimed)
    began = hand_clock.now
    hand_clock.advance(LEASE // 2 - 1)
    assert await engine.shared.keeper.run_once() == began + LEASE // 2
    assert (await engine.job(claimed.lease.job_id)).lease_expires_at == began + LEASE
    hand_clock.advance(1)
    assert await engine.shared.keeper.run_once() == hand_clock.now + LEASE // 2
    assert running.lease_expires_at == hand_clock.now + LEASE
    assert (await engine.job(claimed.lease.job_id)).lease_expires_at == hand_clock.now + LEASE


async def test_only_leases_at_half_time_are_extended(engine: Engine, hand_clock: HandClock) -> None:
    older = take_up(engine, await claim_new(engine))
    hand_clock.advance(1_000)
    newer = take_up(engine, await claim_new(engine))
    before = newer.lease_expires_at
    hand_clock.advance(LEASE // 2 - 1_000)
    assert await engine.shared.keeper.run_once() == hand_clock.now + 1_000
    assert (older.lease_expires_at, newer.lease_expires_at) == (hand_clock.now + LEASE, before)


async def test_a_lost_lease_ends_its_handler(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    running = take_up(engine, await claim_new(engine))
    other = take_up(engine, await claim_new(engine))
    await settler.settle([(running.claimed, LOST)])
    hand_clock.advance(LEASE // 2)
    await engine.shared.keeper.run_once()
    assert running.task.stop.killed.is_set()
    assert running.task.stop.reason is StopReason.INTERRUPTED
    assert other.task.stop.reason is None


async def test_output_is_put_on_disk_as_it_grows(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine)
    running = take_up(engine, claimed)
    running.task.output.write(b"one ")
    await pass_half_time(engine, hand_clock)
    assert await engine.store.log(claimed.lease.job_id, 1) == b"one "
    running.task.output.write(b"two")
    await pass_half_time(engine, hand_clock)
    assert await engine.store.log(claimed.lease.job_id, 1) == b"one two"


async def test_output_that_did_not_grow_is_not_written_again(
    engine: Engine, store: SqliteStore, hand_clock: HandClock
) -> None:
    running = take_up(engine, await claim_new(engine))
    running.task.output.write(b"one")
    await pass_half_time(engine, hand_clock)
    commits = store.writer.commits
    await pass_half_time(engine, hand_clock)
    assert store.writer.commits == commits + 1


async def test_the_log_of_a_lost_attempt_survives(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    running = take_up(engine, claimed)
    running.task.output.write(b"before the end")
    await pass_half_time(engine, hand_clock)
    engine.shared.running.remove(running)
    await settler.settle([(claimed, LOST)])
    assert await engine.log(claimed.lease.job_id, 1) == b"before the end"


async def test_the_log_of_an_attempt_that_lost_its_lease_is_not_touched(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    running = take_up(engine, claimed)
    await settler.settle([(claimed, LOST)])
    running.task.output.write(b"too late")
    await pass_half_time(engine, hand_clock)
    assert await engine.store.log(claimed.lease.job_id, 1) is None


async def test_what_ended_meanwhile_is_left_alone(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    """An attempt that settles while its lease is being extended loses nothing and is not ended."""
    claimed = await claim_new(engine)
    running = take_up(engine, claimed)
    hand_clock.advance(LEASE // 2)

    async def end() -> None:
        await settler.settle([(claimed, COMPLETED)])
        engine.shared.running.remove(running)

    settling = asyncio.create_task(end())
    await asyncio.sleep(0)
    await engine.shared.keeper.run_once()
    await settling
    assert running.task.stop.reason is None
    assert await engine.log(claimed.lease.job_id, 1) == b"all of it"
