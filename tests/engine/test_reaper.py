"""Jobs whose holder is gone are taken back, once; a late outcome changes nothing."""

from __future__ import annotations

from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.job import Claimed, Job, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.engine.support import (
    HandClock,
    claim,
    claim_new,
    settle_down,
    submit,
    take_up,
    wait_for,
)

COMPLETED = Outcome(kind=OutcomeKind.COMPLETED, result=b"1", log=b"late")
LEASE = 10_000


async def lose(engine: Engine, hand_clock: HandClock, claimed: Claimed) -> Job:
    """Let the lease of a job nobody runs run out; the job after that."""
    hand_clock.advance(LEASE)
    await engine.shared.reaper.run_once()
    return await engine.job(claimed.lease.job_id)


async def test_a_lease_that_holds_is_left_alone(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine)
    hand_clock.advance(LEASE - 1_000)
    assert await engine.shared.reaper.run_once() == claimed.started_at + LEASE
    assert (await engine.job(claimed.lease.job_id)).status is Status.PROCESSING


async def test_without_leases_it_sleeps(engine: Engine) -> None:
    assert await engine.shared.reaper.run_once() is None


async def test_a_first_loss_runs_again_at_once(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine)
    job = await lose(engine, hand_clock, claimed)
    assert (job.status, job.failures, job.attempt) == (Status.PENDING, 1, 1)
    assert job.last_error == "the lease ran out before an outcome came"
    (attempt,) = await engine.attempts(job.id)
    assert (attempt.number, attempt.outcome) == (1, "lost")


async def test_a_second_loss_waits_for_its_backoff(engine: Engine, hand_clock: HandClock) -> None:
    await lose(engine, hand_clock, await claim_new(engine))
    (again,) = await claim(engine)
    assert again.losses == 1
    job = await lose(engine, hand_clock, again)
    assert (job.status, job.failures, job.attempt) == (Status.RETRYING, 2, 2)
    assert hand_clock.now + 20_000 <= job.run_at <= hand_clock.now + 25_000


async def test_one_loss_too_many_is_the_end(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine, max_retries=0)
    assert (await lose(engine, hand_clock, claimed)).status is Status.DEAD


async def test_a_lost_job_that_was_cancelled_is_cancelled(
    engine: Engine, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    await engine.cancel(claimed.lease.job_id)
    job = await lose(engine, hand_clock, claimed)
    assert (job.status, job.failures) == (Status.CANCELLED, 0)


async def test_a_lost_job_whose_time_is_over_expires(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine, expires_at=hand_clock.now + 1_000)
    promoter = engine.shared.promoter
    promoter.start()
    await settle_down()
    await lose(engine, hand_clock, claimed)
    await wait_for(engine, claimed.lease.job_id, Status.EXPIRED)
    await promoter.stop()


async def test_an_expired_lease_is_settled_once(engine: Engine, hand_clock: HandClock) -> None:
    await lose(engine, hand_clock, await claim_new(engine))
    assert await engine.shared.reaper.run_once() is None
    assert engine.shared.meter.totals["leases_expired"] == 1
    assert engine.shared.meter.totals["outcome_lost"] == 1


async def test_all_expired_leases_are_taken_back_together(
    engine: Engine, hand_clock: HandClock
) -> None:
    for _ in range(3):
        await submit(engine)
    claimed = await claim(engine, 3)
    assert (await lose(engine, hand_clock, claimed[0])).status is Status.PENDING
    assert engine.store.counts.of("quick", "pending") == 3


async def test_what_runs_here_is_not_lost(engine: Engine, hand_clock: HandClock) -> None:
    claimed = await claim_new(engine)
    take_up(engine, claimed)
    assert (await lose(engine, hand_clock, claimed)).status is Status.PROCESSING
    assert engine.shared.meter.totals["leases_expired"] == 0


async def test_it_looks_again_in_a_while_when_a_lease_here_is_late(
    engine: Engine, hand_clock: HandClock
) -> None:
    take_up(engine, await claim_new(engine))
    hand_clock.advance(2 * LEASE)
    assert await engine.shared.reaper.run_once() == hand_clock.now + 1_000


async def test_a_late_outcome_changes_nothing(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    before = await lose(engine, hand_clock, claimed)
    hand_clock.advance(1)
    counts = engine.store.counts.by_type()
    await settler.settle([(claimed, COMPLETED)])
    assert await engine.job(before.id) == before
    assert engine.store.counts.by_type() == counts
    assert len(await engine.attempts(before.id)) == 1
    assert await engine.log(before.id, 1) == b""
    assert engine.shared.meter.totals["stale_outcomes"] == 1
    assert engine.shared.meter.totals["completed"] == 0


async def test_a_late_outcome_cannot_end_the_next_attempt(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    first = await claim_new(engine)
    await lose(engine, hand_clock, first)
    (second,) = await claim(engine)
    await settler.settle([(first, COMPLETED)])
    assert (await engine.job(second.lease.job_id)).status is Status.PROCESSING
    await settler.settle([(second, COMPLETED)])
    assert (await engine.job(second.lease.job_id)).status is Status.COMPLETED


async def test_an_outcome_is_taken_once(engine: Engine, settler: Settler) -> None:
    claimed = await claim_new(engine)
    for _ in range(2):
        await settler.settle([(claimed, COMPLETED)])
    assert engine.shared.meter.totals["completed"] == 1
    assert engine.shared.meter.totals["stale_outcomes"] == 1


async def test_what_a_dead_daemon_ran_is_taken_up_at_once(engine: Engine) -> None:
    for _ in range(2):
        await submit(engine)
    claimed = await claim(engine, 2)
    await engine.cancel(claimed[1].lease.job_id)
    assert await engine.shared.reaper.recover() == 2
    lost, cancelled = [await engine.job(job.lease.job_id) for job in claimed]
    assert (lost.status, lost.failures) == (Status.PENDING, 1)
    assert lost.last_error == "the daemon died while this attempt ran"
    assert cancelled.status is Status.CANCELLED
    assert await engine.shared.reaper.recover() == 0
