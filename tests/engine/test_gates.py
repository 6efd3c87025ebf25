"""What keeps jobs of a type from starting, and that nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.config import Config, PoolSettings
from jobqueued.engine.gate import CODES
from jobqueued.engine.gates import shares
from jobqueued.engine.service import Engine
from jobqueued.model.control import Breaker, Room
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.model.rate import Rate
from jobqueued.model.submission import Poll
from tests.engine.support import (
    HandClock,
    claim_new,
    dispatch,
    read_config,
    settle_down,
    submit,
    take_up,
    without,
)

MINUTE = 60_000


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return read_config(tmp_path_factory.mktemp("gates"))


def most(config: Config, *types: JobType, workers: int = 10, share: float = 0.8) -> dict[str, int]:
    """How many of each may run."""
    pools = config.pools | {"default": PoolSettings(workers=workers, max_share=share)}
    named = {job_type.name: job_type for job_type in types}
    found = shares(msgspec.structs.replace(config, types=named, pools=pools)).most
    return dict(found)


def a_type(name: str, max_running: int | None = None, pool: str = "default") -> JobType:
    handler = CommandHandler(argv=("true",))
    return JobType(name=name, handler=handler, pool=pool, max_running=max_running)


def test_a_type_alone_may_have_all_workers(empty: Config) -> None:
    assert most(empty, a_type("a"), a_type("b", pool="narrow"))["a"] == 10


def test_types_that_share_a_pool_leave_room_for_each_other(empty: Config) -> None:
    assert most(empty, a_type("a"), a_type("b")) == {"a": 8, "b": 8}


def test_max_running_binds_and_does_not_widen_the_share(empty: Config) -> None:
    assert most(empty, a_type("a", 2), a_type("b", 100)) == {"a": 2, "b": 8}


@given(st.integers(1, 1000), st.floats(0.01, 1.0))
def test_a_share_is_at_least_one_worker_and_never_too_much(
    empty: Config, workers: int, share: float
) -> None:
    found = most(empty, a_type("a"), a_type("b"), workers=workers, share=share)["a"]
    assert found == 1 or found <= workers * share
    assert found > workers * share - 1


def reload(engine: Engine, kind: str, **fields: object) -> None:
    """Go on with a type that is set up otherwise."""
    changed = msgspec.structs.replace(engine.config.types[kind], **fields)
    types = engine.config.types | {kind: changed}
    engine.reload(msgspec.structs.replace(engine.config, types=types))


def codes(engine: Engine, now: int, kind: str = "quick") -> list[str]:
    return [gate.code for gate in engine.shared.gates.holding(kind, now)]


def fields(engine: Engine, now: int, kind: str = "quick") -> Mapping[str, object]:
    """All that is known of the first gate."""
    gate = engine.shared.gates.first(kind, now)
    assert gate is not None
    assert gate.detail
    return {name: value for name, value in msgspec.structs.asdict(gate).items() if value}


async def test_nothing_holds_a_type_that_may_run(engine: Engine, hand_clock: HandClock) -> None:
    assert codes(engine, hand_clock.now) == []
    assert engine.shared.gates.room("alone") == Room(1, 10_000, None, 60_000)


async def test_every_gate_that_holds_is_named_in_order(
    engine: Engine, hand_clock: HandClock
) -> None:
    now = hand_clock.now
    reload(engine, "quick", max_running=1, rate=Rate(1, MINUTE))
    await submit(engine)
    await dispatch(engine)
    running = take_up(engine, await claim_new(engine))
    await engine.store.open_breaker("quick", "too much failed", now, now + MINUTE)
    await engine.store.pause("quick", "user ada", None, now)
    engine.pools["default"].idle.clear()
    engine.shared.draining = True
    found = codes(engine, now)
    assert found == [
        "draining", "type_paused", "breaker_open", "type_limit", "rate_limited", "pool_full",
    ]  # fmt: skip
    assert found == [code for code in CODES if code in found]
    engine.shared.running.remove(running)


async def test_a_pause_says_since_when_by_whom_and_why(
    engine: Engine, hand_clock: HandClock
) -> None:
    await engine.store.pause("quick", "user ada", "the printer burns", hand_clock.now)
    assert fields(engine, hand_clock.now) == {
        "code": "type_paused", "type": "quick", "since": hand_clock.now, "by": "user ada",
        "note": "the printer burns",
    }  # fmt: skip


async def test_an_open_breaker_says_when_the_next_job_is_tried(
    engine: Engine, hand_clock: HandClock
) -> None:
    now = hand_clock.now
    await engine.store.open_breaker("quick", "9 of 10 failed", now, now + MINUTE)
    assert fields(engine, now) == {
        "code": "breaker_open", "type": "quick", "since": now, "until": now + MINUTE,
        "reason": "9 of 10 failed",
    }  # fmt: skip
    assert codes(engine, now + MINUTE) == []


async def test_a_type_without_a_breaker_is_not_held_by_one(
    engine: Engine, hand_clock: HandClock
) -> None:
    now = hand_clock.now
    await engine.store.open_breaker("quick", "9 of 10 failed", now, now + MINUTE)
    reload(engine, "quick", breaker=None)
    assert codes(engine, now) == []
    reload(engine, "quick", breaker=Breaker())
    assert codes(engine, now) == ["breaker_open"]


async def test_a_type_at_its_limit_says_how_many_run(engine: Engine, hand_clock: HandClock) -> None:
    reload(engine, "quick", max_running=1)
    running = take_up(engine, await claim_new(engine))
    assert fields(engine, hand_clock.now) == {
        "code": "type_limit", "type": "quick", "running": 1, "limit": 1
    }  # fmt: skip
    engine.shared.running.ending["quick"] += 1
    assert codes(engine, hand_clock.now) == []
    engine.shared.running.remove(running)


async def test_a_spent_rate_says_when_the_next_token_comes(
    engine: Engine, hand_clock: HandClock
) -> None:
    reload(engine, "quick", rate=Rate(30, MINUTE))
    for _ in range(3):
        await submit(engine)
    await dispatch(engine)
    assert engine.store.counts.of("quick", "pending") == 2
    assert fields(engine, hand_clock.now) == {
        "code": "rate_limited", "type": "quick", "until": hand_clock.now + 2_000
    }  # fmt: skip
    hand_clock.advance(1_999)
    assert codes(engine, hand_clock.now) == ["rate_limited"]
    hand_clock.advance(1)
    assert codes(engine, hand_clock.now) == []


async def test_a_type_that_is_gone_has_no_worker_but_keeps_its_pause(
    engine: Engine, hand_clock: HandClock
) -> None:
    await engine.store.pause("quick", "user ada", None, hand_clock.now)
    engine.reload(without(engine.config, "quick"))
    assert codes(engine, hand_clock.now) == ["no_worker", "type_paused"]


async def test_a_remote_type_needs_somebody_who_asks_for_it(
    engine: Engine, hand_clock: HandClock
) -> None:
    assert codes(engine, hand_clock.now, "away") == ["no_worker"]
    poll = Poll(types=("away",), most=1, worker="w", lease=None, wait=30_000)
    polling = asyncio.create_task(engine.lease(poll))
    await settle_down()
    assert codes(engine, hand_clock.now, "away") == []
    assert codes(engine, hand_clock.now, "few") == ["no_worker"]
    polling.cancel()
    await asyncio.wait([polling])
    assert codes(engine, hand_clock.now, "away") == ["no_worker"]


async def test_all_workers_busy_hold_whoever_needs_one(
    engine: Engine, hand_clock: HandClock
) -> None:
    engine.pools["narrow"].reserve(["narrow-1"])
    assert fields(engine, hand_clock.now, "alone") == {
        "code": "pool_full", "type": "alone", "pool": "narrow", "limit": 1
    }  # fmt: skip
    assert codes(engine, hand_clock.now, "quick") == []
