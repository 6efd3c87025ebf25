"""Dead letters in the engine: who is woken, what is counted, how much goes into one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec
import pytest

from jobqueued.config import Config
from jobqueued.engine import dead
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.change import Act, BulkReplay, Found, Replay
from jobqueued.model.errors import ConfirmNeeded, NotDead, QueueFull, TypeGone
from jobqueued.model.job import Job, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.engine.support import HandClock, claim_new, submit, wait_for, without

ANN = "user ann"


def act(engine: Engine, at: int = 0) -> Act:
    return Act(ANN, at, "again")


async def died(engine: Engine, settler: Settler, kind: str = "quick") -> Job:
    claimed = await claim_new(engine, kind)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.FATAL, error="wrong"))])
    return await engine.dead_letters.get(claimed.lease.job_id)


def asked(**fields: object) -> BulkReplay:
    values: dict[str, object] = {"type": "quick", "limit": 1000} | fields
    return msgspec.convert(values, BulkReplay)


def marked(engine: Engine) -> Config:
    """The configuration with a type that is replayed on purpose only."""
    config = engine.config
    kind = msgspec.structs.replace(config.types["quick"], confirm_replay=True)
    return msgspec.structs.replace(config, types=config.types | {"quick": kind})


async def test_a_replayed_job_runs_at_once(live: Engine) -> None:
    live.config.types["again"] = msgspec.structs.replace(live.config.types["again"], max_retries=0)
    job = await submit(live, "again")
    dead_job = await wait_for(live, job.id, Status.DEAD)
    await live.dead_letters.replay(dead_job, None, act(live, job.run_at), confirm=False)
    while (found := await wait_for(live, job.id, Status.DEAD)).attempt < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert (found.attempt, found.failures) == (2, 1)


async def test_who_waits_for_a_job_hears_of_its_end(engine: Engine, settler: Settler) -> None:
    job = await died(engine, settler)
    change = engine.shared.changes.next(job.id)
    await engine.dead_letters.replay(job, None, act(engine), confirm=False)
    assert change.done()
    other = await died(engine, settler)
    change = engine.shared.changes.next(other.id)
    await engine.dead_letters.discard(other.id, act(engine))
    assert change.done()


async def test_what_is_done_is_counted_and_logged(
    engine: Engine, settler: Settler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    jobs = [await died(engine, settler) for _ in range(3)]
    await engine.dead_letters.replay(jobs[0], b"[]", act(engine), confirm=False)
    await engine.dead_letters.replay_many(asked(limit=1), act(engine))
    await engine.dead_letters.discard(jobs[2].id, act(engine))
    totals = engine.shared.meter.totals
    assert (totals["replayed"], totals["discarded"]) == (2, 1)
    assert f"job {jobs[0].id} replayed with another payload by {ANN}" in caplog.text
    assert f"job {jobs[1].id} replayed by {ANN}" in caplog.text
    assert f"job {jobs[2].id} discarded by {ANN}: again" in caplog.text


async def test_a_paced_replay_is_promoted_in_time(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    jobs = [await died(engine, settler) for _ in range(3)]
    wish = asked(pace_per_second=0.5, delay=1000)
    await engine.dead_letters.replay_many(wish, act(engine, hand_clock.now))
    runs = [(await engine.job(job.id)).run_at - hand_clock.now for job in jobs]
    assert runs == [1000, 3000, 5000]
    for ready in (0, 1, 1, 2):
        assert engine.store.counts.of("quick", Status.PENDING) == ready
        hand_clock.advance(1000)
        await engine.shared.promoter.run_once()


async def test_many_go_in_small_transactions(
    engine: Engine, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [await died(engine, settler) for _ in range(5)]
    monkeypatch.setattr(dead, "_AT_ONCE", 2)
    sizes = []
    replay = engine.store.replay

    async def noted(replays: Sequence[Replay], by: Act) -> list[Found | None]:
        sizes.append(len(replays))
        return await replay(replays, by)

    monkeypatch.setattr(engine.store, "replay", noted)
    done = await engine.dead_letters.replay_many(asked(), act(engine))
    assert (sizes, done.ids) == ([2, 2, 1], [job.id for job in jobs])


async def test_two_at_the_same_time_replay_each_job_once(engine: Engine, settler: Settler) -> None:
    jobs = [await died(engine, settler) for _ in range(4)]
    both = await asyncio.gather(
        *(engine.dead_letters.replay_many(asked(), act(engine)) for _ in range(2))
    )
    assert sorted([*both[0].ids, *both[1].ids]) == [job.id for job in jobs]
    assert sum(one.skipped for one in both) == 4
    assert engine.shared.meter.totals["replayed"] == 4
    late = engine.dead_letters.replay(jobs[0], None, act(engine), confirm=False)
    with pytest.raises(NotDead):
        await late


async def test_the_queue_is_filled_and_no_further(engine: Engine, settler: Settler) -> None:
    jobs = [await died(engine, settler) for _ in range(3)]
    for _ in range(18):
        await submit(engine, "other")
    first = await engine.dead_letters.replay_many(asked(), act(engine))
    assert (len(first.ids), first.next_cursor) == (2, jobs[1].id)
    with pytest.raises(QueueFull):
        await engine.dead_letters.replay_many(asked(after=first.next_cursor), act(engine))
    await engine.dead_letters.replay(jobs[2], None, act(engine), confirm=False)
    assert engine.store.counts.waiting == 21


async def test_types_that_are_gone_or_marked_are_refused(engine: Engine, settler: Settler) -> None:
    job = await died(engine, settler)
    known = engine.config
    engine.shared.config = marked(engine)
    with pytest.raises(ConfirmNeeded):
        await engine.dead_letters.replay_many(asked(), act(engine))
    with pytest.raises(ConfirmNeeded):
        await engine.dead_letters.replay(job, None, act(engine), confirm=False)
    assert (await engine.dead_letters.replay_many(asked(dry_run=True), act(engine))).confirm_needed
    engine.shared.config = without(known, "quick")
    with pytest.raises(TypeGone):
        await engine.dead_letters.replay(job, None, act(engine), confirm=True)
    assert (await engine.job(job.id)).status is Status.DEAD
    engine.shared.config = known
    engine.shared.config = marked(engine)
    done = await engine.dead_letters.replay_many(asked(confirm=True), act(engine))
    assert done.ids == [job.id]
