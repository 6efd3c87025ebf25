"""Remote workers: what they are given, how long it is theirs, what they may say about it."""

from __future__ import annotations

import asyncio

import pytest

from jobqueued.config import Config
from jobqueued.engine.deadlines import Deadlines
from jobqueued.engine.service import Engine
from jobqueued.model.errors import Draining
from jobqueued.model.job import Claimed, Job, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.submission import Beat, Poll, Report
from tests.engine.support import HandClock, dispatch, settle_down, submit, until, without

LEASE = 10_000
TIMEOUT = 25_000


def poll(*types: str, most: int = 1, wait: int = 0, lease: int | None = None) -> Poll:
    return Poll(types=types or ("away",), most=most, worker="far-1", lease=lease, wait=wait)


async def lease(engine: Engine, asked: Poll) -> list[Claimed]:
    """What a worker is given in one round of the dispatcher."""
    waiting = asyncio.create_task(engine.lease(asked))
    await settle_down()
    await dispatch(engine)
    return await waiting


async def leased(engine: Engine, **fields: object) -> Claimed:
    await submit(engine, "away", **fields)
    [claimed] = await lease(engine, poll())
    return claimed


async def found(engine: Engine, claimed: Claimed) -> Job:
    return await engine.job(claimed.lease.job_id)


def report(claimed: Claimed, kind: OutcomeKind, **more: object) -> Report:
    outcome = Outcome(kind=kind, **more)  # type: ignore[arg-type]
    return Report(token=claimed.lease.token, outcome=outcome)


async def test_a_worker_gets_the_whole_job(engine: Engine) -> None:
    claimed = await leased(engine, payload=b'{"a":1}', correlation_id="c")
    job = claimed.job
    assert job == await found(engine, claimed)
    assert job is not None
    assert (job.status, job.attempt, job.worker) == (Status.PROCESSING, 1, "far-1")
    assert (job.payload, job.correlation_id) == (b'{"a":1}', "c")


async def test_without_work_a_worker_that_does_not_wait_goes_away_empty(engine: Engine) -> None:
    assert await lease(engine, poll()) == []


async def test_a_waiting_worker_is_woken_by_the_submission(live: Engine) -> None:
    waiting = asyncio.create_task(live.lease(poll(wait=60_000)))
    await until(lambda: len(live.shared.remote) == 1)
    job = await submit(live, "away")
    async with asyncio.timeout(15):
        assert [claimed.lease.job_id for claimed in await waiting] == [job.id]
    assert len(live.shared.remote) == 0


async def test_waiting_ends_when_the_time_is_up(live: Engine) -> None:
    assert await live.lease(poll(wait=20)) == []


async def test_a_worker_is_given_no_more_than_it_asks_for(engine: Engine) -> None:
    for _ in range(5):
        await submit(engine, "away")
    assert len(await lease(engine, poll(most=3))) == 3
    assert len(await lease(engine, poll(most=3))) == 2


async def test_workers_that_ask_together_share_the_limit_of_a_type(engine: Engine) -> None:
    for _ in range(6):
        await submit(engine, "few")
    asked = [asyncio.create_task(engine.lease(poll("few", most=2))) for _ in range(3)]
    await settle_down()
    await dispatch(engine)
    assert sorted(map(len, await asyncio.gather(*asked))) == [0, 1, 2]
    assert engine.store.counts.of("few", "processing") == 3


async def test_who_waits_for_a_type_at_its_limit_is_woken_when_a_job_of_it_ends(
    live: Engine,
) -> None:
    for _ in range(4):
        await submit(live, "few")
    first = await live.lease(poll("few", most=4, wait=10_000))
    waiting = asyncio.create_task(live.lease(poll("few", wait=30_000)))
    await settle_down()
    assert (len(first), waiting.done()) == (3, False)
    completed = Outcome(kind=OutcomeKind.COMPLETED)
    assert await live.report([Report(token=first[0].lease.token, outcome=completed)]) == [True]
    async with asyncio.timeout(10):
        assert len(await waiting) == 1


async def test_jobs_of_other_types_are_not_handed_out(engine: Engine) -> None:
    await submit(engine, "away")
    await submit(engine, "quick")
    assert await lease(engine, poll("few")) == []
    assert await lease(engine, poll("quick")) == []


async def test_the_daemons_own_workers_take_no_remote_jobs(live: Engine) -> None:
    job = await submit(live, "away")
    await live.wait((await submit(live)).id, 15)
    assert (await live.job(job.id)).status is Status.PENDING


async def test_a_worker_that_hangs_up_strands_nothing(engine: Engine) -> None:
    """It goes while the claim made for it is being written."""
    job = await submit(engine, "away")
    waiting = asyncio.create_task(engine.lease(poll(wait=60_000)))
    await settle_down()
    round_ = asyncio.create_task(dispatch(engine))
    await asyncio.sleep(0)
    waiting.cancel()
    await round_
    await dispatch(engine)
    after = await engine.job(job.id)
    assert (after.status, after.attempt, after.failures) == (Status.PENDING, 1, 0)


async def test_what_cannot_be_delivered_is_handed_back(engine: Engine) -> None:
    claimed = await leased(engine)
    engine.hand_back([claimed])
    await dispatch(engine)
    after = await found(engine, claimed)
    assert (after.status, after.failures) == (Status.PENDING, 0)


async def test_what_is_handed_back_after_the_last_round_is_taken_back_too(engine: Engine) -> None:
    claimed = await leased(engine)
    await engine.close()
    engine.hand_back([claimed])
    await engine.take_back()
    after = await found(engine, claimed)
    assert (after.status, after.failures) == (Status.PENDING, 0)


async def test_a_draining_engine_hands_out_nothing(live: Engine) -> None:
    waiting = asyncio.create_task(live.lease(poll(wait=60_000)))
    await until(lambda: len(live.shared.remote) == 1)
    live.drain()
    assert await waiting == []
    with pytest.raises(Draining):
        await live.lease(poll())


async def test_a_beat_extends_the_lease(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await leased(engine)
    hand_clock.advance(8_000)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token, percent=40.0, message="m")])
    assert (answer.status, answer.expires_at) == ("ok", hand_clock.now + LEASE)
    after = await found(engine, claimed)
    assert after.lease_expires_at == hand_clock.now + LEASE
    assert after.progress is not None
    assert (after.progress.percent, after.progress.message) == (40.0, "m")


async def test_no_lease_outlives_the_timeout(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await leased(engine)
    end = hand_clock.now + TIMEOUT
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token, extend=3_600_000)])
    assert answer.expires_at == end
    hand_clock.advance(TIMEOUT)
    await engine.shared.reaper.run_once()
    [attempt] = await engine.attempts(claimed.lease.job_id)
    assert attempt.outcome == "timeout"


async def test_a_job_whose_type_is_gone_stays_with_its_worker(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    engine.reload(without(engine.config, "away"))
    hand_clock.advance(8_000)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token)])
    assert (answer.status, answer.expires_at) == ("ok", hand_clock.now + TIMEOUT - 8_000)
    hand_clock.advance(LEASE)
    await engine.shared.reaper.run_once()
    assert await engine.report([report(claimed, OutcomeKind.COMPLETED)]) == [True]
    assert (await found(engine, claimed)).status is Status.COMPLETED


async def test_a_lease_that_runs_out_is_a_loss(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await leased(engine)
    hand_clock.advance(LEASE)
    await engine.shared.reaper.run_once()
    after = await found(engine, claimed)
    assert (after.status, after.failures) == (Status.PENDING, 1)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token)])
    assert answer.status == "stale"
    assert await engine.report([report(claimed, OutcomeKind.COMPLETED)]) == [False]
    assert engine.shared.meter.totals["stale_outcomes"] == 1


async def test_who_is_heard_while_we_listen_has_lost_nothing(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    hand_clock.advance(LEASE)
    round_ = asyncio.create_task(engine.shared.reaper.run_once())
    await settle_down()
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token)])
    await round_
    assert (answer.status, answer.expires_in) == ("ok", LEASE)
    assert (await found(engine, claimed)).status is Status.PROCESSING


async def test_a_loss_says_for_how_long_nothing_was_heard(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    hand_clock.advance(4_000)
    await engine.heartbeat([Beat(token=claimed.lease.token)])
    hand_clock.advance(LEASE + 300)
    await engine.shared.reaper.run_once()
    [attempt] = await engine.attempts(claimed.lease.job_id)
    assert attempt.error == "the lease ran out: no sign of life for 10.3 s"


async def test_a_new_daemon_gives_every_worker_a_lease_to_find_it(
    config: Config, engine: Engine, hand_clock: HandClock
) -> None:
    """Also where the date on disk is of a clock that was set, or older than the last beat."""
    alive, gone = await leased(engine), await leased(engine)
    hand_clock.advance(LEASE)
    following = Engine(config, engine.store, {})
    await following.shared.reaper.run_once()
    hand_clock.advance(LEASE - 1)
    await following.heartbeat([Beat(token=alive.lease.token)])
    hand_clock.advance(1)
    await following.shared.reaper.run_once()
    assert (await found(following, alive)).status is Status.PROCESSING
    [attempt] = await following.attempts(gone.lease.job_id)
    assert (attempt.outcome, attempt.error) == (
        "lost",
        "the lease ran out: no sign of life for 10.0 s",
    )
    await following.close()


def test_what_is_being_ended_is_not_renewed() -> None:
    deadlines = Deadlines()
    deadlines.begin("t", LEASE, TIMEOUT)
    assert deadlines.extend("t", LEASE, TIMEOUT) == LEASE
    deadlines.give_up("t")
    assert deadlines.extend("t", LEASE, TIMEOUT) is None


async def test_a_clock_set_forward_takes_no_job_from_a_worker(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    hand_clock.set(86_400_000)
    await engine.shared.reaper.run_once()
    after = await found(engine, claimed)
    assert (after.status, after.lease_expires_at) == (Status.PROCESSING, hand_clock.now + LEASE)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token)])
    assert (answer.status, answer.expires_in) == ("ok", LEASE)
    hand_clock.advance(LEASE)
    await engine.shared.reaper.run_once()
    [attempt] = await engine.attempts(claimed.lease.job_id)
    assert attempt.outcome == "lost"


async def test_a_clock_set_back_leaves_no_job_with_a_dead_worker(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    hand_clock.set(-86_400_000)
    assert await engine.shared.reaper.run_once() == hand_clock.now + LEASE
    hand_clock.advance(LEASE)
    await engine.shared.reaper.run_once()
    assert (await found(engine, claimed)).status is Status.PENDING


async def test_the_timeout_of_a_job_elsewhere_is_not_a_date(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await leased(engine)
    hand_clock.set(-86_400_000)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token, extend=3_600_000)])
    assert answer.expires_in == TIMEOUT
    hand_clock.advance(TIMEOUT)
    await engine.shared.reaper.run_once()
    [attempt] = await engine.attempts(claimed.lease.job_id)
    assert attempt.outcome == "timeout"


async def test_leases_elsewhere_outlive_a_restart(engine: Engine) -> None:
    claimed = await leased(engine)
    assert await engine.shared.reaper.recover() == 0
    assert await engine.report([report(claimed, OutcomeKind.COMPLETED)]) == [True]


async def test_who_runs_a_cancelled_job_is_told(engine: Engine) -> None:
    claimed = await leased(engine)
    await engine.cancel(claimed.lease.job_id)
    [answer] = await engine.heartbeat([Beat(token=claimed.lease.token)])
    assert answer.status == "cancelled"
    await engine.report([report(claimed, OutcomeKind.INTERRUPTED)])
    assert (await found(engine, claimed)).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("kind", "status", "failures"),
    [
        (OutcomeKind.COMPLETED, Status.COMPLETED, 0),
        (OutcomeKind.FAILED, Status.RETRYING, 1),
        (OutcomeKind.FATAL, Status.DEAD, 1),
        (OutcomeKind.INTERRUPTED, Status.PENDING, 0),
    ],
)
async def test_a_report_ends_the_attempt_once(
    engine: Engine, kind: OutcomeKind, status: Status, failures: int
) -> None:
    claimed = await leased(engine)
    told = report(claimed, kind, error="why", result=b"5")
    assert await engine.report([told, told]) == [True, False]
    assert await engine.report([told]) == [False]
    after = await found(engine, claimed)
    assert (after.status, after.failures, after.result) == (status, failures, b"5")
    assert len(await engine.attempts(after.id)) == 1


async def test_reports_are_answered_in_their_order(engine: Engine) -> None:
    first, second = await leased(engine), await leased(engine)
    unknown = Report(token="nobody", outcome=Outcome(kind=OutcomeKind.COMPLETED))
    told = [report(second, OutcomeKind.COMPLETED), unknown, report(first, OutcomeKind.FATAL)]
    assert await engine.report(told) == [True, False, True]
