"""A breaker opens when too much fails, lets one through at a time, and closes when one works."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobqueued import clock
from jobqueued.engine.breakers import Window
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.control import Breaker
from jobqueued.model.job import Claimed, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import FAILURES
from jobqueued.store.interface import Ask
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import HandClock, claim, claim_new, read_config, submit, take_up

SECOND = 1_000
BREAKER = Breaker(error_rate=0.5, window=60 * SECOND, min_attempts=4, probe_every=10 * SECOND)


def with_breaker(engine: Engine, breaker: Breaker | None, kind: str = "quick") -> None:
    changed = msgspec.structs.replace(engine.config.types[kind], breaker=breaker)
    types = engine.config.types | {kind: changed}
    engine.reload(msgspec.structs.replace(engine.config, types=types))


async def take(engine: Engine, kind: str = "quick") -> Claimed | None:
    """Claim one job the way the dispatcher does; gates and claim are of one mind."""
    gates, now = engine.shared.gates, clock.now()
    is_open = gates.first(kind, now) is None
    ask = Ask("default", ("default-1",), {kind: gates.room(kind)}, 0)
    found = await engine.store.claim([ask], now)
    assert bool(found) == is_open
    return found[0] if found else None


async def settle(engine: Engine, claimed: Claimed, kind: OutcomeKind) -> None:
    await Settler(engine.shared).settle([(claimed, Outcome(kind=kind, error="no route"))])


async def end_some(engine: Engine, number: int, kind: OutcomeKind = OutcomeKind.FAILED) -> None:
    for _ in range(number):
        await settle(engine, await claim_new(engine, max_retries=0), kind)


def state(engine: Engine, kind: str = "quick") -> str:
    return engine.controls.one(kind).breaker


@dataclass
class Expected:
    """What a breaker is to do, told in the plainest way."""

    ended: list[tuple[int, bool]] = field(default_factory=list)
    since: int | None = None
    probe_at: int = 0

    def lets_through(self, now: int) -> bool:
        if self.since is not None and now < self.probe_at:
            return False
        self.probe_at = now + BREAKER.probe_every
        return True

    def settle(self, kind: OutcomeKind, now: int) -> None:
        failed = kind in FAILURES and kind is not OutcomeKind.LOST
        if not failed and kind is not OutcomeKind.COMPLETED:
            return
        if self.since is None:
            self.ended.append((now, failed))
            recent = [failed for at, failed in self.ended if now - at < BREAKER.window]
            share = sum(recent) / len(recent)
            if failed and len(recent) >= BREAKER.min_attempts and share >= BREAKER.error_rate:
                self.since, self.probe_at, self.ended = now, now + BREAKER.probe_every, []
        elif not failed:
            self.since, self.ended = None, []


steps = st.lists(
    st.tuples(st.integers(1, 15), st.sampled_from(OutcomeKind)), min_size=1, max_size=40
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_it_does_what_is_expected_whatever_happens(taken: list[tuple[int, OutcomeKind]]) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        hand_clock = HandClock()
        patch.setattr(clock, "now", hand_clock)
        patch.setattr(clock, "monotonic", hand_clock.monotonic)
        asyncio.run(_follow(Path(place), hand_clock, taken))


async def _follow(place: Path, hand_clock: HandClock, taken: list[tuple[int, OutcomeKind]]) -> None:
    config = read_config(place)
    store = await SqliteStore.open(config.store.path)
    engine, expected = Engine(config, store, {}), Expected()
    with_breaker(engine, BREAKER)
    try:
        for pause, kind in taken:
            hand_clock.advance(pause * SECOND)
            if store.counts.waiting == 0:
                await submit(engine, max_retries=0)
            claimed = await take(engine)
            assert (claimed is not None) == expected.lets_through(hand_clock.now)
            if claimed is not None:
                await settle(engine, claimed, kind)
                expected.settle(kind, hand_clock.now)
            assert engine.shared.gates.control("quick").breaker_since == expected.since
    finally:
        await engine.close()
        await store.close()


def naive(moments: list[tuple[int, bool]], window: int, now: int) -> Iterator[bool]:
    return (failed for at, failed in moments if now - at < window)


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.booleans()), max_size=200),
    st.integers(1_000, 120_000),
)
def test_a_window_forgets_what_is_older_and_little_that_is_not(
    taken: list[tuple[int, bool]], length: int
) -> None:
    window, now, added = Window(), 0, []
    for pause, failed in taken:
        now += pause
        window.add(failed, length, now)
        added.append((now, failed))
        ended, failures = window.ended_and_failed(length, now)
        # A sixtieth of the window may be forgotten early, nothing late.
        most, least = (list(naive(added, by, now)) for by in (length, length - length // 59))
        assert len(least) <= ended <= len(most)
        assert sum(least) <= failures <= sum(most)
        assert len(window._slices) <= 61


async def test_few_failures_are_none(engine: Engine) -> None:
    with_breaker(engine, BREAKER)
    await end_some(engine, 3)
    assert state(engine) == "closed"
    await end_some(engine, 1)
    assert state(engine) == "open"


async def test_what_opens_and_closes_is_said_and_counted(
    engine: Engine, hand_clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    with_breaker(engine, BREAKER)
    await end_some(engine, 1, OutcomeKind.COMPLETED)
    await end_some(engine, 3, OutcomeKind.TIMEOUT)
    control = engine.shared.gates.control("quick")
    assert control.breaker_reason == "3 of 4 attempts failed within 1m, the last: no route"
    assert "type quick: breaker open, one job is tried every 10s: 3 of 4" in caplog.text
    hand_clock.advance(BREAKER.probe_every)
    await end_some(engine, 1, OutcomeKind.COMPLETED)
    assert state(engine) == "closed"
    assert "type quick: breaker closed" in caplog.text
    totals = engine.shared.meter.totals
    assert (totals["breaker_opened"], totals["breaker_closed"]) == (1, 1)


async def test_what_ran_before_it_opened_does_not_close_it(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_breaker(engine, BREAKER)
    early = await claim_new(engine)
    hand_clock.advance(1)
    await end_some(engine, 4)
    assert state(engine) == "probing"
    await settle(engine, early, OutcomeKind.COMPLETED)
    assert state(engine) == "open"


async def test_jobs_wait_behind_it_without_spending_attempts(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_breaker(engine, BREAKER)
    await end_some(engine, 4)
    job = await submit(engine)
    hand_clock.advance(BREAKER.probe_every - 1)
    assert await take(engine) is None
    found = await engine.job(job.id)
    assert (found.status, found.attempt) == (Status.PENDING, 0)


async def test_what_the_daemon_lost_itself_is_no_failure_of_the_type(engine: Engine) -> None:
    with_breaker(engine, BREAKER)
    for _ in range(6):
        await submit(engine)
    assert len(await claim(engine, 4)) == 4
    assert await engine.shared.reaper.recover() == 4
    assert state(engine) == "closed"


async def test_what_remote_workers_lose_is_no_failure_of_the_type(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_breaker(engine, BREAKER, "few")
    for _ in range(4):
        await submit(engine, "few")
    held = engine.shared.gates.room("few")
    ask = Ask("remote-1", ("w",) * 4, {"few": msgspec.structs.replace(held, most=9)}, 0, "remote")
    assert len(await engine.store.claim([ask], hand_clock.now)) == 4
    hand_clock.advance(60 * SECOND)
    await engine.shared.reaper.run_once()
    assert engine.shared.meter.totals["outcome_lost"] == 4
    assert state(engine, "few") == "closed"


async def test_a_type_can_do_without(engine: Engine) -> None:
    with_breaker(engine, None)
    await end_some(engine, 10)
    assert state(engine) == "off"
    assert engine.shared.gates.control("quick").breaker_since is None


async def test_a_reload_keeps_an_open_breaker_open(engine: Engine, hand_clock: HandClock) -> None:
    with_breaker(engine, BREAKER)
    await end_some(engine, 4)
    with_breaker(engine, msgspec.structs.replace(BREAKER, probe_every=SECOND, min_attempts=50))
    assert state(engine) == "open"
    await submit(engine)
    hand_clock.advance(BREAKER.probe_every)
    probe = await take(engine)
    assert probe is not None
    running = take_up(engine, probe)
    assert state(engine) == "probing"
    assert engine.shared.gates.control("quick").breaker_probe_at == hand_clock.now + SECOND
    engine.shared.running.remove(running)


async def test_a_clock_that_ran_ahead_for_a_while_puts_off_no_probe(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_breaker(engine, BREAKER)
    await end_some(engine, 4)
    hand_clock.set(24 * 3600 * SECOND)
    await submit(engine, max_retries=0)
    probe = await take(engine)
    assert probe is not None
    await settle(engine, probe, OutcomeKind.FAILED)
    hand_clock.set(-24 * 3600 * SECOND)
    await submit(engine)
    assert await take(engine) is not None


async def test_a_reload_that_tries_more_often_does_so_from_now_on(
    engine: Engine, hand_clock: HandClock
) -> None:
    with_breaker(engine, msgspec.structs.replace(BREAKER, probe_every=24 * 3600 * SECOND))
    await end_some(engine, 4)
    hand_clock.advance(SECOND)
    with_breaker(engine, BREAKER)
    await submit(engine)
    assert await take(engine) is not None
