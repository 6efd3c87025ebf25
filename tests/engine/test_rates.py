"""Types with a rate: the dispatcher comes back when the next token does, and not before."""

from __future__ import annotations

import asyncio

import msgspec

from jobqueued.config import Config
from jobqueued.engine.service import Engine
from jobqueued.model.job import Status
from jobqueued.model.rate import Rate
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import Gate, HandClock, dispatch, started, submit, until

MINUTE = 60_000


def with_rate(engine: Engine, count: int, per: int, *kinds: str) -> None:
    changed = {
        kind: msgspec.structs.replace(engine.config.types[kind], rate=Rate(count, per))
        for kind in kinds or ("quick",)
    }
    engine.reload(msgspec.structs.replace(engine.config, types=engine.config.types | changed))


def attempts(engine: Engine, kind: str = "quick") -> int:
    """How many jobs have left the queue."""
    counts = engine.store.counts
    return sum(n for status, n in counts.by_type().get(kind, {}).items() if status != "pending")


async def test_it_wakes_at_the_next_token_and_not_before(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_rate(engine, 7, MINUTE)
    for _ in range(4):
        await submit(engine)
    await dispatch(engine)
    assert attempts(engine) == 1
    due = await engine.shared.dispatcher.run_once()
    assert due == hand_clock.now + 8_572
    hand_clock.advance(8_571)
    await dispatch(engine)
    assert attempts(engine) == 1
    hand_clock.advance(1)
    await dispatch(engine)
    assert attempts(engine) == 2


async def test_without_jobs_nobody_wakes_for_a_token(engine: Engine) -> None:
    with_rate(engine, 1, MINUTE)
    await submit(engine)
    await dispatch(engine)
    assert await engine.shared.dispatcher.run_once() is None


async def test_jobs_run_at_their_rate_without_anybody_asking(live: Engine) -> None:
    with_rate(live, 10, 1_000, "other")
    jobs = [await submit(live, "other") for _ in range(15)]
    done = [await live.wait(job.id, 15) for job in jobs]
    assert {job.status for job in done} == {Status.COMPLETED}
    begun = sorted(job.started_at or 0 for job in done)
    for number, moment in enumerate(begun[10:], 1):
        assert moment - begun[0] >= number * 100


async def test_a_type_held_by_its_rate_holds_up_nobody_else(live: Engine) -> None:
    with_rate(live, 1, MINUTE)
    for _ in range(5):
        await submit(live)
    other = await submit(live, "other")
    assert (await live.wait(other.id, 15)).status is Status.COMPLETED
    assert live.store.counts.of("quick", "pending") == 4


async def test_a_faster_rate_holds_at_once(live: Engine) -> None:
    with_rate(live, 1, 24 * 60 * MINUTE)
    jobs = [await submit(live) for _ in range(3)]
    await live.wait(jobs[0].id, 15)
    with_rate(live, 1_000, 1_000)
    done = [await live.wait(job.id, 15) for job in jobs]
    assert {job.status for job in done} == {Status.COMPLETED}


async def test_a_clock_set_back_by_a_day_starves_nobody(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_rate(engine, 1, MINUTE)
    for _ in range(3):
        await submit(engine)
    await dispatch(engine)
    hand_clock.set(-24 * 60 * MINUTE)
    assert await engine.shared.dispatcher.run_once() == hand_clock.now + MINUTE
    hand_clock.advance(MINUTE)
    await dispatch(engine)
    assert attempts(engine) == 2


async def test_a_restart_grants_nothing(
    engine: Engine, config: Config, store: SqliteStore, hand_clock: HandClock
) -> None:
    with_rate(engine, 1, MINUTE)
    await submit(engine)
    await submit(engine)
    await dispatch(engine)
    again = Engine(engine.config, store, {})
    hand_clock.advance(MINUTE - 1)
    await dispatch(again)
    assert attempts(engine) == 1
    hand_clock.advance(1)
    await dispatch(again)
    assert attempts(engine) == 2
    await again.close()


async def test_a_pause_answered_is_a_pause_kept(live: Engine, gate: Gate) -> None:
    """While workers come free and jobs come in, none starts once the pause was answered."""
    running = [await submit(live, "gate") for _ in range(3)]
    for job in running:
        await started(live, job.id)
    waiting = [await submit(live, "gate") for _ in range(5)]
    pausing = asyncio.create_task(live.controls.pause("gate", "user ada", None))
    for _ in running:
        gate.open()
    assert (await pausing).control.paused_by == "user ada"
    begun = live.store.counts.of("gate", "processing") + live.store.counts.of("gate", "completed")
    for _ in range(5 - live.store.counts.of("gate", "pending")):
        gate.open()
    waiting.append(await submit(live, "gate"))
    await until(lambda: live.store.counts.of("gate", "processing") == 0)
    assert live.store.counts.of("gate", "completed") == begun
    await live.controls.resume("gate", "user ada")
    for _ in range(live.store.counts.of("gate", "pending")):
        gate.open()
    done = [await live.wait(job.id, 15) for job in waiting]
    assert {job.status for job in done} == {Status.COMPLETED}
