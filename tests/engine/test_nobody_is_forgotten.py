"""Whatever happens in whatever order: nobody is idle beside a job that could start."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from jobqueued import clock
from jobqueued.config import Config, load_config
from jobqueued.engine import listening
from jobqueued.engine.dispatcher import OpenTypes
from jobqueued.engine.part import Part
from jobqueued.engine.service import Engine
from jobqueued.executors.interface import Executor, StopReason, Task
from jobqueued.model.change import Act, BulkReplay
from jobqueued.model.errors import Conflict, NotFound, UnknownType
from jobqueued.model.job import WAITING, Claimed, Status
from jobqueued.model.job_type import Handler
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.rate import Rate
from jobqueued.model.submission import JobQuery, Poll, Report, Submission
from jobqueued.store.sqlite import keys, store
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import HandClock, settle_down

SECOND = 1_000
CONFIG = """
[server]
listen = ["unix:api.sock"]
[store]
path = "jobs.db"
[retention]
completed = "1m"
[pools.default]
workers = 2
[defaults]
max_retries = 1
backoff = { base = "10s", jitter = "0s" }
timeout = "1h"
[types.keyed]
command = ["true"]
max_running_per_key = 1
[types.rated]
command = ["true"]
rate = "2/min"
breaker = { error_rate = 0.5, window = "5m", min_attempts = 2, probe_every = "20s" }
[types.away]
remote = true
max_running = 2
max_running_per_key = 1
"""
JOBS = """
SELECT type, key, status FROM jobs WHERE status = 'processing'
OR (status = 'pending' AND (expires_at IS NULL OR expires_at > ?))
"""
TYPES = ("keyed", "rated", "away")
ENDS = (
    Outcome(kind=OutcomeKind.COMPLETED),
    Outcome(kind=OutcomeKind.FAILED, error="no"),
    Outcome(kind=OutcomeKind.FATAL, error="no"),
    Outcome(kind=OutcomeKind.FAILED, error="no", retry_after_ms=5 * SECOND),
)
CHANGES: dict[str, dict[str, object]] = {
    "keyed": {"max_running_per_key": None},
    "rated": {"rate": Rate(10, SECOND), "breaker": None},
    "away": {"max_running": 1, "max_running_per_key": 2},
}


class ByHand(Executor):
    """Handlers that end when they are told to."""

    def __init__(self) -> None:
        self.running: list[asyncio.Future[Outcome]] = []
        self.rest = 0

    async def run(self, task: Task) -> Outcome:
        end: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        task.stop.listener = lambda: _end(end, _stopped(task))
        self.running.append(end)
        try:
            return await end
        finally:
            self.running.remove(end)

    def resting_until(self, handler: Handler) -> int | None:
        left = self.rest - _elapsed()
        return clock.now() + left if left > 0 else None

    async def close(self) -> None:
        return None


def _elapsed() -> int:
    return round(clock.monotonic() * 1000)


def _end(attempt: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not attempt.done():
        attempt.set_result(outcome)


def _stopped(task: Task) -> Outcome:
    is_cancel = task.stop.reason is StopReason.CANCELLED
    return Outcome(kind=OutcomeKind.CANCELLED if is_cancel else OutcomeKind.INTERRUPTED)


def _check_noted(part: Part, moment: int | None) -> None:
    assert moment is None or (part._due is not None and clock.now() < part._due <= moment)


class House:
    """An engine whose parts run when they are due, and by no other clock than ours."""

    def __init__(self, config: Config, opened: SqliteStore, hand_clock: HandClock) -> None:
        self.store, self.clock, self.executor = opened, hand_clock, ByHand()
        self.engine = Engine(config, opened, {"command": self.executor})
        self.first = config
        self.pollers: list[asyncio.Task[list[Claimed]]] = []
        self.held: list[Claimed] = []
        self.ids: list[str] = []

    async def settle(self) -> None:
        """Let every part have its rounds until none is due."""
        quiet = 0
        for _ in range(500):
            quiet = 0 if await self._round() else quiet + 1
            if quiet == 3:
                return
        raise AssertionError("it never comes to rest")

    async def _round(self) -> bool:
        due = [each for each in self.engine.parts if (each._due or 0) <= self.clock.now]
        due = [each for each in due if each._due is not None]
        for part in due:
            part._due = None
            following = await part.guard(part.run_once())
            if following is not None:
                part.wake_at(following)
        if not due:
            await self.engine.shared.dispatcher.wait_for_claims()
        await self.store._write(lambda tx: None)
        await settle_down()
        for poller in [each for each in self.pollers if each.done()]:
            self.pollers.remove(poller)
            self.held += poller.result()
        return bool(due)

    async def check(self) -> None:
        """Nobody idle could be given a job, and who waits for a moment has noted it."""
        engine, shared = self.engine, self.engine.shared
        assert [part.name for part in engine.parts if part.errors] == []
        assert not any(pool._asked for pool in engine.pools.values())
        assert not any(poller.is_asked_for for poller in shared.remote._pollers.values())
        assert shared.remote._unclaimed == []
        open_types = OpenTypes(shared, self.clock.now)
        asks = [
            *shared.dispatcher._asks(shared.config, open_types),
            *shared.remote.planned(open_types),
        ]
        asked = {name for ask in asks for name in ask.rooms}
        assert [job for job in await self._startable() if job[0] in asked] == []
        assert open_types.next_at is None or not shared.gates.is_clock_set_back(self.clock.now)
        _check_noted(shared.dispatcher, open_types.next_at)
        _check_noted(shared.promoter, await self.store.next_due())
        _check_noted(shared.reaper, await shared.reaper._next(self.clock.now))

    async def _startable(self) -> list[tuple[str, str | None]]:
        """Type and key of the jobs that no limit of their key holds, counted one by one."""
        rows = await self.store._read(lambda c: c.execute(JOBS, (self.clock.now,)).fetchall())
        running = Counter(row[:2] for row in rows if row[2] == Status.PROCESSING)
        limits = {name: each.max_running_per_key for name, each in self.engine.config.types.items()}
        return [
            (kind, key)
            for kind, key, status in rows
            if status == Status.PENDING
            and (key is None or running[kind, key] < (limits.get(kind) or len(rows)))
        ]

    async def close(self) -> None:
        self.engine.drain()
        for poller in self.pollers:
            poller.cancel()
        await asyncio.gather(*self.pollers, return_exceptions=True)
        self.engine.shared.running.stop_all(kill=True)
        await self.engine.shared.running.wait_until_empty()
        await self.engine.close()

    # What can happen.

    async def submit(self, kind: str, key: str | None, delay: int, expires_in: int | None) -> None:
        wanted = Submission(type=kind, key=key, delay=delay, expires_in=expires_in)
        with suppress(UnknownType):
            self.ids.append((await self.engine.submit(wanted)).job.id)

    async def advance(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND)

    async def set_clock(self, seconds: int) -> None:
        """Who waits for a moment looks at the clock again; who waits for none does not."""
        self.clock.set(seconds * SECOND)
        for part in self.engine.parts:
            part._due = None if part._due is None else 0

    async def end(self, number: int, outcome: Outcome) -> None:
        if self.executor.running:
            _end(self.executor.running[number % len(self.executor.running)], outcome)

    async def report(self, number: int, outcome: Outcome) -> None:
        if self.held:
            job = self.held.pop(number % len(self.held))
            await self.engine.report([Report(token=job.lease.token, outcome=outcome)])

    async def poll(self, most: int) -> None:
        poll = Poll(types=("away",), most=most, worker="w", wait=50 * SECOND)
        self.pollers.append(asyncio.create_task(self.engine.lease(poll)))

    async def hang_up(self, number: int) -> None:
        if self.pollers:
            poller = self.pollers.pop(number % len(self.pollers))
            poller.cancel()
            await asyncio.gather(poller, return_exceptions=True)

    async def hand_back(self, number: int) -> None:
        """The answer does not reach the worker."""
        if self.held:
            self.engine.hand_back([self.held.pop(number % len(self.held))])

    async def pause(self, kind: str) -> None:
        await self.engine.controls.pause(kind, "ada", None)

    async def resume(self, number: int) -> None:
        controls = self.store.controls.items()
        paused = sorted(name for name, control in controls if control.paused_at is not None)
        if paused:
            await self.engine.controls.resume(paused[number % len(paused)], "ada")

    async def cancel(self, number: int) -> None:
        if self.ids:
            with suppress(Conflict, NotFound):
                await self.engine.cancel(self.ids[number % len(self.ids)])

    async def cancel_some(self, kind: str, most: int) -> None:
        query = JobQuery(statuses=tuple(Status(one) for one in WAITING), type=kind, limit=most)
        await self.engine.cancel_some(query, dry_run=False)

    async def run_now(self, number: int) -> None:
        if self.ids:
            with suppress(Conflict, NotFound):
                await self.engine.run_now(self.ids[-4:][number % len(self.ids[-4:])])

    async def replay(self, kind: str, delay: int, pace: float | None) -> None:
        if kind in self.engine.config.types:
            asked = BulkReplay(type=kind, limit=5, delay=delay, pace_per_second=pace)
            await self.engine.dead_letters.replay_many(asked, Act("ada", self.clock.now))

    async def rest(self, seconds: int) -> None:
        """What a webhook's answer does as its attempt ends."""
        self.executor.rest = _elapsed() + seconds * SECOND
        self.engine.shared.dispatcher.wake()

    async def reload(self, kind: str, how: str, workers: int) -> None:
        types = dict(self.first.types)
        if how == "changed":
            types[kind] = msgspec.structs.replace(types[kind], **CHANGES[kind])
        elif how == "gone":
            del types[kind]
        pools = {"default": msgspec.structs.replace(self.first.pools["default"], workers=workers)}
        self.engine.reload(msgspec.structs.replace(self.first, types=types, pools=pools))


NUMBERS, SOON_AND_LATER = range(100), (0, 0, 5 * SECOND)
STEPS: dict[str, tuple[Sequence[Any], ...]] = {
    "submit": (
        TYPES, (None, "one", "one", "two", ""), SOON_AND_LATER,
        (None, 8 * SECOND, 90 * SECOND),
    ),
    "advance": ((1, 6, 30, 61, 3600),),
    "set_clock": ((-86_400, -3600, -30, 30, 3600),),
    "end": (NUMBERS, ENDS),
    "report": (NUMBERS, ENDS),
    "poll": ((1, 2, 3),),
    "hang_up": (NUMBERS,),
    "hand_back": (NUMBERS,),
    "pause": (TYPES,),
    "resume": (NUMBERS,),
    "cancel": (NUMBERS,),
    "cancel_some": (TYPES, (1, 5)),
    "run_now": (NUMBERS,),
    "replay": (TYPES, (0, 100 * SECOND), (None, 0.5)),
    "rest": ((1, 10, 40),),
    "reload": (TYPES, ("first", "changed", "gone"), (1, 2, 3)),
}  # fmt: skip
OFTEN = ("submit", "end", "report", "poll", "advance") * 2
NAMES = (*STEPS, *OFTEN, "submit", "submit", "pause", "resume", "replay", "replay", "run_now")


@settings(max_examples=80, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.randoms(use_true_random=True))
def test_nobody_is_idle_beside_a_job_that_could_start(chance: Random) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        hand_clock = HandClock()
        patch.setattr(clock, "now", hand_clock)
        patch.setattr(clock, "monotonic", hand_clock.monotonic)
        patch.setattr(listening, "SLICE_SECONDS", 0.0)
        patch.setattr(store, "_MANY", 2)
        patch.setattr(keys, "_AT_ONCE", 2)
        path = Path(place) / "jobqueued.toml"
        path.write_text(CONFIG)
        asyncio.run(_follow(load_config(path), hand_clock, chance))


async def _follow(config: Config, hand_clock: HandClock, chance: Random) -> None:
    opened = await SqliteStore.open(config.store.path, "normal")
    house = House(config, opened, hand_clock)
    try:
        for kind in TYPES * 3:
            await house.submit(kind, "one", 0, None)
        for _ in range(40):
            await _take_a_step(house, chance)
        await house.settle()
        await house.check()
    finally:
        await house.close()
        await opened.close()


async def _take_a_step(house: House, chance: Random) -> None:
    name = chance.choice(NAMES)
    values = [chance.choice(some) for some in STEPS[name]]
    settles = chance.random() < 0.7
    note(f"{name} {values}{', settle' if settles else ''}")
    with suppress(NotFound):
        await getattr(house, name)(*values)
    if settles:
        await house.settle()
        await house.check()
