"""What a job is said to wait for, and that the dispatcher never finds otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobqueued import clock
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.engine.why import Why
from jobqueued.model.control import Breaker
from jobqueued.model.errors import NotFound
from jobqueued.model.job import Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.rate import Rate
from jobqueued.model.submission import Poll
from jobqueued.store.interface import Counted
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import (
    HandClock,
    claim_new,
    dispatch,
    read_config,
    settle_down,
    submit,
    without,
)

MINUTE = 60_000


def change(engine: Engine, kind: str = "quick", **fields: object) -> None:
    """Go on with a type that is set up otherwise."""
    changed = msgspec.structs.replace(engine.config.types[kind], **fields)
    types = engine.config.types | {kind: changed}
    engine.reload(msgspec.structs.replace(engine.config, types=types))


async def why(engine: Engine, kind: str = "quick", **fields: object) -> Why:
    """Of a new job."""
    return await engine.reasons.of_job((await submit(engine, kind, **fields)).id)


def codes(found: Why) -> list[str]:
    return [gate.code for gate in found.reasons]


async def test_a_job_that_nothing_holds_is_about_to_start(
    engine: Engine, hand_clock: HandClock
) -> None:
    found = await why(engine)
    assert (found.reasons, found.detail) == ([], "it is about to start")
    assert found.ahead == Counted(0)
    assert found.estimated_start == -(-hand_clock.now // 1000) * 1000


async def test_a_scheduled_job_tells_its_time_and_the_pause_it_will_meet(
    engine: Engine, hand_clock: HandClock
) -> None:
    run_at = hand_clock.now + MINUTE
    found = await why(engine, run_at=run_at)
    assert codes(found) == ["scheduled"]
    assert (found.reasons[0].until, found.ahead) == (run_at, None)
    assert found.estimated_start is not None
    assert 0 <= found.estimated_start - run_at < 1000
    await engine.store.pause("quick", "user ada", None, hand_clock.now)
    paused = await engine.reasons.of_job(found.job.id)
    assert (codes(paused), paused.estimated_start) == (["scheduled", "type_paused"], None)
    assert paused.unknown_because is None


async def test_a_job_that_failed_tells_how_often_and_with_what(
    engine: Engine, settler: Settler, hand_clock: HandClock
) -> None:
    claimed = await claim_new(engine)
    failed = Outcome(kind=OutcomeKind.FAILED, error="no such host\nat line 7")
    await settler.settle([(claimed, failed)])
    found = await engine.reasons.of_job(claimed.lease.job_id)
    (gate,) = found.reasons
    assert (gate.code, gate.failures, gate.reason) == ("retry_backoff", 1, "no such host")
    assert gate.until == found.job.run_at > hand_clock.now


async def test_a_type_at_its_limit_names_those_that_run(
    engine: Engine, hand_clock: HandClock
) -> None:
    change(engine, max_running=1)
    claimed = await claim_new(engine)
    engine.shared.recent.completed("quick", 4_000)
    found = await why(engine)
    assert codes(found) == ["type_limit"]
    assert found.reasons[0].running_ids == (claimed.lease.job_id,)
    second = await why(engine)
    assert codes(second) == ["type_limit", "jobs_ahead"]
    assert second.reasons[1].ahead == 1
    assert found.estimated_start is not None
    assert second.estimated_start is not None
    assert second.estimated_start - found.estimated_start == 4_000


async def test_nobody_can_tell_when_jobs_of_which_none_has_completed_make_room(
    engine: Engine, hand_clock: HandClock
) -> None:
    change(engine, max_running=1)
    await claim_new(engine)
    found = await why(engine)
    assert found.estimated_start is None
    assert found.unknown_because == "no job of type quick has completed since the daemon started"
    engine.shared.recent.completed("quick", 4_000)
    told = await engine.reasons.of_job(found.job.id)
    assert (told.estimated_start is None, told.unknown_because) == (False, None)


async def test_tokens_that_are_left_are_counted_for_those_who_go_first(
    engine: Engine, hand_clock: HandClock
) -> None:
    change(engine, rate=Rate(1, MINUTE))
    engine.shared.recent.completed("quick", 10)
    starts = [(await why(engine)).estimated_start for _ in range(3)]
    assert starts == [-(-hand_clock.now // 1000) * 1000 + each * MINUTE for each in range(3)]


async def test_others_of_the_pool_do_not_count_against_the_limit_of_the_type(
    engine: Engine, hand_clock: HandClock
) -> None:
    """Four workers: ten others take them two times and a half, and then it is its turn."""
    change(engine, max_running=1)
    engine.shared.recent.completed("quick", 4_000)
    for kind in ("other", "gate"):
        for _ in range(5):
            await submit(engine, kind, priority=9)
    found = await why(engine)
    assert codes(found) == ["jobs_ahead"]
    assert found.estimated_start is not None
    assert 0 <= found.estimated_start - (hand_clock.now + 11_000) < 1_000


async def test_a_share_of_the_pool_is_left_whatever_is_better(engine: Engine) -> None:
    for _ in range(8):
        await submit(engine, "other", priority=9)
    found = await why(engine)
    assert (found.reasons, found.ahead) == ([], Counted(0))


async def test_nobody_can_tell_how_a_probe_ends(engine: Engine, hand_clock: HandClock) -> None:
    now = hand_clock.now
    await engine.store.open_breaker("quick", "all failed", now, now + MINUTE)
    engine.shared.recent.completed("quick", 10)
    first, second = await why(engine), await why(engine)
    assert first.estimated_start == -(-(now + MINUTE) // 1000) * 1000
    assert second.estimated_start is None


async def test_a_job_held_back_by_its_key_names_those_before_it(
    engine: Engine, hand_clock: HandClock
) -> None:
    change(engine, max_running_per_key=1)
    await engine.store.line_up("quick", 1, None)
    claimed = await claim_new(engine, key="acme")
    await submit(engine, key="acme")
    found = await why(engine, key="acme")
    assert codes(found) == ["key_limit"]
    gate = found.reasons[0]
    assert (gate.key, gate.limit, gate.ahead) == ("acme", 1, 1)
    assert gate.running_ids == (claimed.lease.job_id,)
    told = await engine.reasons.of_type("quick")
    assert [(share.code, share.jobs) for share in told.backlog] == [("key_limit", 2)]


async def test_a_spent_rate_tells_when_each_that_waits_may_start(
    engine: Engine, hand_clock: HandClock
) -> None:
    change(engine, rate=Rate(1, MINUTE))
    await submit(engine)
    await dispatch(engine)
    engine.shared.recent.completed("quick", 10)
    first, second = await why(engine), await why(engine)
    assert (codes(first), codes(second)) == (["rate_limited"], ["rate_limited", "jobs_ahead"])
    assert first.estimated_start is not None
    assert second.estimated_start is not None
    assert second.estimated_start - first.estimated_start == MINUTE


async def test_what_is_better_in_the_pool_goes_first(engine: Engine, hand_clock: HandClock) -> None:
    for kind in ("quick", "other"):
        for _ in range(4):
            await submit(engine, kind, priority=9)
    found = await why(engine)
    assert codes(found) == ["jobs_ahead"]
    assert found.reasons[0].ahead == 8
    await engine.store.pause("other", "user ada", None, hand_clock.now)
    assert (await engine.reasons.of_job(found.job.id)).reasons[0].ahead == 4


async def test_a_job_that_expires_first_is_told_so(engine: Engine, hand_clock: HandClock) -> None:
    now = hand_clock.now
    await engine.store.open_breaker("quick", "9 of 10 failed", now, now + MINUTE)
    found = await why(engine, expires_at=now + 1_000)
    assert codes(found) == ["breaker_open"]
    assert "expires before it would start" in found.detail
    hand_clock.advance(2 * MINUTE)
    assert codes(await engine.reasons.of_job(found.job.id)) == ["expired"]


async def test_who_runs_and_what_is_over_has_no_reasons(engine: Engine) -> None:
    claimed = await claim_new(engine)
    runs = await engine.reasons.of_job(claimed.lease.job_id)
    assert (runs.reasons, runs.ahead) == ([], None)
    assert "default-1" in runs.detail
    over = await engine.cancel((await submit(engine)).id)
    assert "it is over: cancelled" in (await engine.reasons.of_job(over.id)).detail
    with pytest.raises(NotFound):
        await engine.reasons.of_job("0" * 36)


async def test_a_full_disk_holds_everything(engine: Engine, store: SqliteStore) -> None:
    found = await why(engine)
    store.writer.disk_full = True
    told = await engine.reasons.of_job(found.job.id)
    assert (codes(told), told.estimated_start) == (["disk_full"], None)
    store.writer.disk_full = False


async def test_a_type_that_is_gone_and_one_nobody_waits_for(engine: Engine) -> None:
    gone, away = await why(engine), await why(engine, "away")
    engine.reload(without(engine.config, "quick"))
    told = await engine.reasons.of_job(gone.job.id)
    assert (codes(told), told.estimated_start) == (["no_worker"], None)
    assert (codes(away), away.estimated_start) == (["no_worker"], None)


async def test_a_backlog_is_summed_up_by_reason(engine: Engine, hand_clock: HandClock) -> None:
    now = hand_clock.now
    for run_at in (now + MINUTE, None, None):
        await submit(engine, run_at=run_at)
    told = await engine.reasons.of_type("quick")
    assert [(each.code, each.jobs) for each in told.backlog] == [("scheduled", 1), (None, 2)]
    await engine.store.pause("quick", "user ada", None, now)
    told = await engine.reasons.of_type("quick")
    assert [gate.code for gate in told.gates] == ["type_paused"]
    assert [each.code for each in told.backlog] == ["scheduled", "type_paused"]


KINDS = ("quick", "other", "alone", "away", "few")
STATES = (
    "paused", "breaker", "probe due", "limit", "rate spent", "rate", "key", "full", "polled",
    "resting", "gone",
)  # fmt: skip


async def bring_about(engine: Engine, kind: str, state: str, now: int) -> None:
    """Put a type into a state in which something holds it, or nearly does."""
    if state == "paused":
        await engine.store.pause(kind, "user ada", None, now)
    elif state in ("breaker", "probe due"):
        change(engine, kind, breaker=Breaker())
        probe_at = now + MINUTE if state == "breaker" else now - 1
        await engine.store.open_breaker(kind, "all failed", now - 2, probe_at)
    elif state == "limit":
        change(engine, kind, max_running=1)
    elif state in ("rate", "rate spent"):
        change(engine, kind, rate=Rate(1 if state == "rate spent" else 120, MINUTE))
    elif state == "key":
        change(engine, kind, max_running_per_key=1)
        await engine.store.line_up(kind, 1, None)
    elif state == "full":
        pool = engine.pools[engine.config.types[kind].pool]
        pool.reserve(pool.idle[1:])


async def fail_one(engine: Engine) -> None:
    """Have one of those that run wait for its next attempt."""
    for running in engine.shared.running:
        failed = Outcome(kind=OutcomeKind.FAILED, error="no such host")
        await Settler(engine.shared).settle([(running.claimed, failed)])
        engine.shared.running.remove(running)
        return


async def check_one(
    engine: Engine,
    states: Iterable[tuple[str, str]],
    jobs: Iterable[tuple[str, int, str | None, str]],
    run_before: bool,
) -> None:
    """`why` has no reason for a job if and only if the next round claims it."""
    now = clock.now()
    chosen = list(states)
    for kind, state in chosen:
        await bring_about(engine, kind, state, now)
    ids = []
    for kind, priority, key, when in jobs:
        fields: dict[str, object] = {"priority": priority, "key": key}
        fields |= {"run_at": now + MINUTE} if when == "later" else {}
        fields |= {"expires_at": now + 1} if when == "expires" else {}
        ids.append((await submit(engine, kind, **fields)).id)
    polled = [kind for kind, state in chosen if state == "polled" and kind in ("away", "few")]
    polling = [
        asyncio.create_task(
            engine.lease(Poll(types=(kind,), most=2, worker="w", lease=None, wait=30_000))
        )
        for kind in polled
    ]
    await settle_down()
    await asyncio.sleep(0.003)
    if run_before:
        await dispatch(engine)
        await fail_one(engine)
    for kind, state in chosen:
        if state == "gone" and kind in engine.config.types:
            engine.reload(without(engine.config, kind))
    engine.shared.draining = any(state == "resting" for _, state in chosen)
    said = {}
    for job_id in ids:
        found = await engine.reasons.of_job(job_id)
        if found.job.status in (Status.PENDING, Status.SCHEDULED, Status.RETRYING):
            said[job_id] = found
    await dispatch(engine)
    for job_id, found in said.items():
        started = (await engine.job(job_id)).status is Status.PROCESSING
        assert started == (found.reasons == []), (codes(found), found.detail, found.job)
    for task in polling:
        task.cancel()
    await asyncio.wait(polling or [asyncio.create_task(asyncio.sleep(0))])


async def in_a_place_of_its_own(place: Path, *what: object) -> None:
    config = read_config(place)
    store = await SqliteStore.open(config.store.path, "normal")
    engine = Engine(config, store, {})
    for pool in engine.pools.values():
        # Nothing is run: what is started stays started.
        for task in pool._tasks:
            task.cancel()
    try:
        await check_one(engine, *what)  # type: ignore[arg-type]
    finally:
        with suppress(asyncio.CancelledError):
            await engine.close()
        await store.close()


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(STATES)), max_size=4),
    jobs=st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.integers(3, 6), st.sampled_from([None, "a", "b"]),
            st.sampled_from(["now", "now", "now", "later", "expires"]),
        ),
        min_size=1, max_size=12,
    ),
    run_before=st.booleans(),
)  # fmt: skip
def test_no_reason_means_that_the_next_round_claims_it(
    states: list[tuple[str, str]], jobs: list[tuple[str, int, str | None, str]], run_before: bool
) -> None:
    with TemporaryDirectory() as place:
        asyncio.run(in_a_place_of_its_own(Path(place), states, jobs, run_before))
