"""The loop of a running part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from jobqueued import clock
from jobqueued.engine import part
from jobqueued.engine.part import Part
from jobqueued.model.errors import DiskFull, StoreUnavailable
from tests.engine.support import PATIENCE, HandClock, settle_down, until

HOUR = 3_600_000


class Rounds(Part):
    """Counts its rounds; each ends as `answer` says, once `gate` is open."""

    name = "rounds"

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.ended = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[], int | None] = lambda: None

    async def run_once(self) -> int | None:
        self.begun += 1
        await self.gate.wait()
        self.ended += 1
        return self.answer()


@pytest.fixture
async def rounds() -> AsyncIterator[Rounds]:
    made = Rounds()
    yield made
    made.gate.set()
    await made.stop()


async def start(rounds: Rounds) -> None:
    """Start it and see it asleep after its first round."""
    rounds.start()
    await until(lambda: rounds.ended == 1)
    await settle_down()


def fail_once(error: Exception) -> Callable[[], int | None]:
    left = [error]

    def answer() -> int | None:
        if left:
            raise left.pop()
        return None

    return answer


async def test_without_anything_due_it_sleeps(rounds: Rounds) -> None:
    await start(rounds)
    assert rounds.begun == 1


async def test_it_wakes_when_told(rounds: Rounds) -> None:
    await start(rounds)
    rounds.wake()
    await until(lambda: rounds.ended == 2)
    await settle_down()
    assert rounds.begun == 2


async def test_many_wake_ups_are_one_round(rounds: Rounds) -> None:
    await start(rounds)
    for _ in range(10):
        rounds.wake()
    await until(lambda: rounds.ended == 2)
    await settle_down()
    assert rounds.begun == 2


async def test_a_wake_up_during_a_round_is_not_lost(rounds: Rounds) -> None:
    rounds.gate.clear()
    rounds.start()
    await until(lambda: rounds.begun == 1)
    rounds.wake()
    rounds.gate.set()
    await until(lambda: rounds.ended == 2)


async def test_it_comes_back_when_its_round_said(rounds: Rounds) -> None:
    began = clock.now()
    rounds.answer = lambda: began + 50 if rounds.ended == 1 else None
    await start(rounds)
    await until(lambda: rounds.ended == 2)
    assert clock.now() >= began + 50


async def test_the_earliest_moment_counts(rounds: Rounds) -> None:
    soon = clock.now() + 50
    rounds.answer = lambda: soon + HOUR if rounds.ended == 1 else None
    await start(rounds)
    rounds.wake_at(soon)
    rounds.wake_at(soon + HOUR)
    await until(lambda: rounds.ended == 2)
    assert clock.now() >= soon


async def test_a_moment_named_during_a_round_is_not_lost(rounds: Rounds) -> None:
    rounds.gate.clear()
    rounds.start()
    await until(lambda: rounds.begun == 1)
    rounds.wake_at(clock.now())
    rounds.gate.set()
    await until(lambda: rounds.ended == 2)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, -2_000])
async def test_it_notices_when_the_clock_is_set(
    rounds: Rounds, hand_clock: HandClock, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    monkeypatch.setattr(part, "_SLICE_SECONDS", 0.01)
    due = hand_clock.now + HOUR
    rounds.answer = lambda: due if rounds.ended == 1 else None
    await start(rounds)
    hand_clock.set(jump)
    await until(lambda: rounds.ended == 2)


async def test_an_error_is_counted_and_the_round_run_again(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(part, "_AFTER_ERROR_MS", 10)
    rounds.answer = fail_once(RuntimeError("once"))
    rounds.start()
    await until(lambda: rounds.ended == 2)
    assert rounds.errors == 1
    assert "rounds failed" in caplog.text


async def test_a_full_disk_is_waited_for_and_no_error(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "_AFTER_ERROR_MS", 10)
    rounds.answer = fail_once(DiskFull("full"))
    rounds.start()
    await until(lambda: rounds.ended == 2)
    assert rounds.errors == 0


async def test_it_ends_with_its_store(rounds: Rounds) -> None:
    rounds.answer = fail_once(StoreUnavailable("gone"))
    await start(rounds)
    rounds.wake()
    await settle_down()
    assert (rounds.begun, rounds.errors) == (1, 0)


async def test_stopping_waits_for_the_round(rounds: Rounds) -> None:
    rounds.gate.clear()
    rounds.start()
    await until(lambda: rounds.begun == 1)
    stopping = asyncio.create_task(rounds.stop())
    await settle_down()
    assert not stopping.done()
    rounds.gate.set()
    async with asyncio.timeout(PATIENCE):
        await stopping
    assert rounds.ended == 1


async def test_stopping_ends_a_sleep_at_once(rounds: Rounds) -> None:
    rounds.answer = lambda: clock.now() + HOUR
    await start(rounds)
    async with asyncio.timeout(PATIENCE):
        await rounds.stop()
    assert rounds.begun == 1


async def test_the_watchdog_sees_a_round_that_lasts(rounds: Rounds) -> None:
    rounds.gate.clear()
    rounds.start()
    await until(lambda: rounds.begun == 1)
    assert rounds.busy_since is not None
    rounds.gate.set()
    await until(lambda: rounds.busy_since is None)
