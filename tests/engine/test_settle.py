"""What comes after an attempt: bounded retries, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueued import clock
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.model.job import TERMINAL, TRANSITIONS, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import FAILURES, Backoff, Next, after_attempt
from tests.engine.support import HandClock, claim, claim_new, submit

NOW = 1_800_000_000_000
ENDS = {
    OutcomeKind.COMPLETED: Status.COMPLETED,
    OutcomeKind.CANCELLED: Status.CANCELLED,
    OutcomeKind.FATAL: Status.DEAD,
}
kinds = st.sampled_from(OutcomeKind)
failing = st.sampled_from([*(FAILURES - {OutcomeKind.FATAL}), OutcomeKind.INTERRUPTED])
stories = st.lists(failing, max_size=60).flatmap(lambda begin: kinds.map(lambda end: [*begin, end]))
chances = st.floats(0, 1, exclude_max=True)
backoffs = st.builds(
    Backoff,
    base=st.integers(0, 86_400_000),
    factor=st.floats(1, 10),
    max=st.integers(0, 7 * 86_400_000),
    jitter=st.integers(0, 3_600_000),
)


def decide(kind: OutcomeKind, before: Next, max_retries: int, **more: Any) -> Next:
    known: dict[str, Any] = {"backoff": Backoff(), "now": NOW, "chance": 0.5} | more
    return after_attempt(
        Outcome(kind=kind),
        failures=before.failures,
        losses=before.losses,
        max_retries=max_retries,
        **known,
    )


def live(story: list[OutcomeKind], max_retries: int) -> list[tuple[OutcomeKind, Next]]:
    """Attempt after attempt until the job is terminal or the story ends."""
    state = Next(Status.PENDING, NOW, 0, 0)
    passed = []
    for kind in story:
        state = decide(kind, state, max_retries)
        passed.append((kind, state))
        if state.status in TERMINAL:
            break
    return passed


@given(stories, st.integers(0, 20))
def test_failures_are_bounded(story: list[OutcomeKind], max_retries: int) -> None:
    passed = live(story, max_retries)
    failures = [kind for kind, _ in passed if kind in FAILURES]
    _, last = passed[-1]
    assert last.failures == len(failures) <= max_retries + 1
    assert last.losses == failures.count(OutcomeKind.LOST)
    assert (last.status is Status.DEAD) == (
        last.failures == max_retries + 1 or passed[-1][0] is OutcomeKind.FATAL
    )


@given(stories, st.integers(0, 20))
def test_every_step_is_a_legal_one(story: list[OutcomeKind], max_retries: int) -> None:
    for kind, state in live(story, max_retries):
        assert state.status in TRANSITIONS[Status.PROCESSING]
        assert ENDS.get(kind, state.status) == state.status
        assert (state.run_at is None) == (state.status is not Status.RETRYING)


@given(stories)
def test_only_the_first_loss_runs_again_at_once(story: list[OutcomeKind]) -> None:
    losses = [state for kind, state in live(story, 20) if kind is OutcomeKind.LOST]
    for number, state in enumerate(losses):
        if state.status is not Status.DEAD:
            assert state.status is (Status.RETRYING if number else Status.PENDING)


@given(backoffs, st.integers(1, 21), chances)
def test_a_backoff_grows_to_its_limit(backoff: Backoff, failures: int, chance: float) -> None:
    grown = min(backoff.base * backoff.factor ** (failures - 1), backoff.max)
    delay = backoff.delay(failures, chance)
    assert int(grown) <= delay <= grown + backoff.jitter
    assert backoff.delay(failures + 1, chance) >= delay


def test_the_default_backoff_is_the_one_of_the_contract() -> None:
    waits = [Backoff().delay(failures, 0) for failures in range(1, 10)]
    assert waits[:4] == [30_000, 60_000, 120_000, 240_000]
    assert waits[-1] == 3_600_000
    assert 44_900 < Backoff().delay(1, 0.999) < 45_000


@given(st.integers(0, 10**12), chances)
def test_a_handler_may_name_its_own_wait_within_bounds(wait: int, chance: float) -> None:
    outcome = Outcome(kind=OutcomeKind.FAILED, retry_after_ms=wait)
    state = after_attempt(
        outcome, failures=0, losses=0, max_retries=1, backoff=Backoff(), now=NOW, chance=chance
    )
    assert state == Next(Status.RETRYING, NOW + min(wait, 3_600_000), 1, 0)


async def to_the_end(engine: Engine, settler: Settler, story: list[OutcomeKind]) -> list[Status]:
    """Take the one waiting job through attempts that end like this; its states."""
    states: list[Status] = []
    for kind in story:
        (claimed,) = await claim(engine)
        await settler.settle([(claimed, Outcome(kind=kind, error=f"it was {kind}"))])
        job = await engine.job(claimed.lease.job_id)
        states.append(job.status)
        assert job.attempt == len(states)
        if job.status is Status.RETRYING:
            assert clock.now() < job.run_at <= clock.now() + 35_000
            await engine.run_now(job.id)
        elif job.is_terminal:
            break
    return states


@given(story=stories, max_retries=st.integers(0, 4))
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_the_store_agrees_with_the_rules(
    engine: Engine, settler: Settler, story: list[OutcomeKind], max_retries: int
) -> None:
    job = await submit(engine, max_retries=max_retries)
    states = await to_the_end(engine, settler, story)
    expected = live(story, max_retries)
    assert states == [state.status for _, state in expected]
    found = await engine.job(job.id)
    assert found.failures == expected[-1][1].failures <= max_retries + 1
    attempts = await engine.attempts(job.id)
    assert [attempt.outcome for attempt in attempts] == [kind for kind, _ in expected]
    assert [attempt.number for attempt in attempts] == list(range(1, len(states) + 1))
    if not found.is_terminal:
        await engine.cancel(job.id)


async def test_a_failed_job_waits_for_its_backoff(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.FAILED, error="x" * 9_000))])
    job = await engine.job(claimed.lease.job_id)
    assert job.status is Status.RETRYING
    assert hand_clock.now + 10_000 <= job.run_at <= hand_clock.now + 15_000
    assert job.last_error == "x" * 4096
    assert (job.worker, job.lease_expires_at) == ("default-1", None)


async def test_an_interrupted_job_waits_without_a_failure(engine: Engine, settler: Settler) -> None:
    claimed = await claim_new(engine, max_retries=0)
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.INTERRUPTED))])
    job = await engine.job(claimed.lease.job_id)
    assert (job.status, job.failures, job.attempt) == (Status.PENDING, 0, 1)


@pytest.mark.parametrize(
    "kind", [OutcomeKind.FAILED, OutcomeKind.TIMEOUT, OutcomeKind.INTERRUPTED, OutcomeKind.LOST]
)
async def test_a_cancelled_job_does_not_run_again(
    engine: Engine, settler: Settler, kind: OutcomeKind
) -> None:
    """However its handler ended: whoever cancelled it was told that it is."""
    claimed = await claim_new(engine)
    await engine.cancel(claimed.lease.job_id)
    await settler.settle([(claimed, Outcome(kind=kind))])
    assert (await engine.job(claimed.lease.job_id)).status is Status.CANCELLED
    assert engine.shared.meter.totals["cancelled"] == 1


async def test_a_type_gone_from_the_configuration_still_settles(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    engine.config.types.clear()
    await settler.settle([(claimed, Outcome(kind=OutcomeKind.FAILED))])
    job = await engine.job(claimed.lease.job_id)
    assert job.status is Status.RETRYING
    assert job.run_at >= hand_clock.now + Backoff().base
