"""What callers can ask of the engine, and what it says about itself."""

from __future__ import annotations

import asyncio

import pytest

from jobqueued import __version__, clock
from jobqueued.engine.meter import Meter
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.executors.interface import StopReason
from jobqueued.model.errors import Conflict, NotFound
from jobqueued.model.job import Progress, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.submission import Beat, JobQuery, Submission
from tests.engine.support import HandClock, claim_new, settle_down, submit, take_up

COMPLETED = Outcome(kind=OutcomeKind.COMPLETED)


async def test_stats_have_the_shape_of_the_contract(live: Engine) -> None:
    stats = await live.stats()
    assert stats["version"] == __version__
    assert stats["started_at"] == clock.rfc3339(live.started_at)
    assert (stats["ready"], stats["draining"], stats["dlq_depth"]) == (True, False, 0)
    assert stats["counts"] == dict.fromkeys(Status, 0)
    assert stats["oldest_pending_seconds"] is None
    assert stats["pools"] == {
        "default": {"workers": 4, "busy": 0},
        "narrow": {"workers": 1, "busy": 0},
    }
    assert stats["rates"] == {"submitted": 0, "completed": 0, "dead": 0}
    store = stats["store"]
    assert isinstance(store, dict)
    assert {"bytes", "wal_bytes", "free_bytes", "retention", "durability"} <= store.keys()
    assert store["durability"] == "full"


async def test_stats_count_what_there_is(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    await settler.settle([(await claim_new(engine), COMPLETED)])
    await settler.settle([(await claim_new(engine), Outcome(kind=OutcomeKind.FATAL))])
    await submit(engine, "other")
    await submit(engine, "other", delay=60_000)
    hand_clock.advance(2_500)
    stats = await engine.stats()
    counts = dict.fromkeys(Status, 0)
    expected = ("completed", "dead", "pending", "scheduled")
    assert stats["counts"] == counts | dict.fromkeys(expected, 1)
    types = stats["types"]
    assert isinstance(types, dict)
    assert types.keys() == engine.config.types.keys()
    assert types["other"]["counts"] == {"pending": 1, "scheduled": 1}
    assert (stats["dlq_depth"], stats["oldest_pending_seconds"]) == (1, 2.5)
    assert stats["uptime_seconds"] == (hand_clock.now - engine.started_at) // 1000
    totals = {"submitted": 4, "completed": 1, "dead": 1}
    assert stats["totals"] == totals | {"outcome_completed": 1, "outcome_fatal": 1}


async def test_busy_workers_show(engine: Engine) -> None:
    claimed = await claim_new(engine)
    engine.pools["default"].start(take_up(engine, claimed))
    stats = await engine.stats()
    pools = stats["pools"]
    assert isinstance(pools, dict)
    assert pools["default"] == {"workers": 4, "busy": 1}
    await engine.shared.running.wait_until_empty()


async def test_a_type_that_is_gone_still_counts(engine: Engine) -> None:
    await submit(engine)
    del engine.config.types["quick"]
    types = (await engine.stats())["types"]
    assert isinstance(types, dict)
    assert types["quick"]["counts"] == {"pending": 1}


async def test_an_engine_is_ready_once_it_has_started(engine: Engine) -> None:
    assert engine.unready_reasons() == ["starting"]
    await engine.start()
    assert engine.unready_reasons() == []


async def test_a_draining_engine_is_not_ready(live: Engine) -> None:
    assert live.unready_reasons() == []
    live.shared.draining = True
    assert live.unready_reasons() == ["shutting down"]
    stats = await live.stats()
    assert (stats["ready"], stats["reasons"]) == (False, ["shutting down"])


async def test_a_round_that_hangs_is_noticed(engine: Engine) -> None:
    assert engine.is_making_progress()
    engine.shared.dispatcher.busy_since = clock.monotonic() - 60
    assert not engine.is_making_progress()


async def test_what_there_is_not_is_not_found(engine: Engine) -> None:
    for asked in (
        *(engine.job("x"), engine.batch("x"), engine.cancel("x"), engine.run_now("x")),
        *(engine.attempts("x"), engine.log("x", None), engine.wait("x", 1)),
    ):
        with pytest.raises(NotFound):
            await asked


async def test_only_a_job_that_waits_for_its_time_can_be_hurried(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    job = await submit(engine, delay=60_000)
    hurried = await engine.run_now(job.id)
    assert (hurried.status, hurried.run_at) == (Status.PENDING, hand_clock.now)
    with pytest.raises(Conflict, match="pending"):
        await engine.run_now(job.id)
    await engine.cancel(job.id)
    with pytest.raises(Conflict, match="cancelled"):
        await engine.run_now(job.id)


async def test_a_retrying_job_can_be_hurried(engine: Engine, settler: Settler) -> None:
    claimed = await claim_new(engine)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.FAILED))])
    assert (await engine.run_now(claimed.lease.job_id)).status is Status.PENDING


async def test_a_finished_job_cannot_be_cancelled(engine: Engine, settler: Settler) -> None:
    claimed = await claim_new(engine)
    await settler.settle([(claimed, COMPLETED)])
    with pytest.raises(Conflict, match="completed"):
        await engine.cancel(claimed.lease.job_id)


async def test_cancelling_tells_the_handler(engine: Engine) -> None:
    running = take_up(engine, await claim_new(engine))
    job = await engine.cancel(running.claimed.lease.job_id)
    assert job.status is Status.PROCESSING
    assert running.task.stop.reason is StopReason.CANCELLED
    assert not running.task.stop.killed.is_set()


async def test_a_heartbeat_reports_progress(engine: Engine) -> None:
    running = take_up(engine, await claim_new(engine))
    lease = running.claimed.lease
    beats = [Beat(token=lease.token, percent=40.0, message="half"), Beat(token="stranger")]
    mine, strange = await engine.heartbeat(beats)
    assert (mine.status, mine.expires_at) == ("ok", running.lease_expires_at)
    assert (strange.status, strange.expires_at) == ("stale", None)
    assert (await engine.job(lease.job_id)).progress == Progress(40.0, "half")


async def test_a_heartbeat_hears_of_a_cancel(engine: Engine) -> None:
    running = take_up(engine, await claim_new(engine))
    await engine.cancel(running.claimed.lease.job_id)
    (answer,) = await engine.heartbeat([Beat(token=running.claimed.lease.token)])
    assert answer.status == "cancelled"


async def test_a_heartbeat_of_a_lost_lease_is_stale(engine: Engine, settler: Settler) -> None:
    running = take_up(engine, await claim_new(engine))
    await settler.settle([(running.claimed, Outcome(kind=OutcomeKind.LOST))])
    (answer,) = await engine.heartbeat([Beat(token=running.claimed.lease.token, percent=99.0)])
    assert answer.status == "stale"
    assert (await engine.job(running.claimed.lease.job_id)).progress is None


async def test_a_list_is_a_page(engine: Engine) -> None:
    jobs = [await submit(engine, key="k") for _ in range(3)]
    page = await engine.jobs(JobQuery(key="k", limit=2))
    assert [job.id for job in page.jobs] == [jobs[2].id, jobs[1].id]
    assert page.next_cursor == jobs[1].id


async def test_a_batch_is_done_when_all_its_jobs_are(engine: Engine) -> None:
    batch_id, placed = await engine.submit_batch([Submission(type="quick")] * 2, None)
    await engine.cancel(placed[0].job.id)
    part = await engine.batch(batch_id)
    assert (part.total, part.counts) == (2, {"pending": 1, "cancelled": 1})
    assert part.finished_at is None
    await engine.cancel(placed[1].job.id)
    assert (await engine.batch(batch_id)).finished_at is not None


async def test_all_running_handlers_are_told_to_stop(engine: Engine) -> None:
    running = [take_up(engine, await claim_new(engine)) for _ in range(2)]
    engine.shared.running.stop_all(kill=False)
    assert {one.task.stop.reason for one in running} == {StopReason.INTERRUPTED}
    assert not running[0].task.stop.killed.is_set()
    engine.shared.running.stop_all(kill=True)
    assert all(one.task.stop.killed.is_set() for one in running)


async def test_the_end_of_the_last_handler_can_be_waited_for(engine: Engine) -> None:
    running = [take_up(engine, await claim_new(engine)) for _ in range(2)]
    empty = asyncio.create_task(engine.shared.running.wait_until_empty())
    engine.shared.running.remove(running[0])
    await settle_down()
    assert not empty.done()
    engine.shared.running.remove(running[1])
    await empty
    assert len(engine.shared.running) == 0
    assert engine.shared.running.by_job(running[1].claimed.lease.job_id) is None


def test_a_rate_is_that_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [1_000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    counted = Meter()
    for _ in range(90):
        counted.count("jobs", 2)
        seconds[0] += 1
    assert counted.totals["jobs"] == 180
    assert 1.9 < counted.per_second("jobs") <= 2.0
    seconds[0] += 120
    assert counted.per_second("jobs") == 0
    assert counted.per_second("nothing") == 0
