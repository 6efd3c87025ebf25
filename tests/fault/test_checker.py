"""The checker itself: silent about a clean run, and every rule catches what breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from tests.fault.checker import judge
from tests.fault.evidence import Attempt, Database, Evidence, StoredJob
from tests.fault.executions import Execution
from tests.fault.history import (
    Answer,
    Cancellation,
    History,
    Injected,
    Line,
    Moment,
    OpenBreaker,
    Pause,
    Settlement,
    Sighting,
    Submission,
    Wanted,
)
from tests.fault.rules.registry import RULES
from tests.fault.rules.submissions import LOST

RATE = "no more jobs of a type start in any time than its rate allows"
LOST_ELSEWHERE = "a job elsewhere is lost only with its worker or with its daemon"
Spoil = Callable[[Evidence], None]
SPOILERS: dict[Spoil, str] = {}


def at(seconds: float) -> Moment:
    """A moment of the run; on the wall clock it is the same plus 1000."""
    return Moment(seconds, 1000 + seconds)


def wanted(number: str, failures: int = 0, key: str | None = None) -> Wanted:
    payload = {"number": number, "seconds": 0, "failures": failures, "fatal": False}
    return Wanted(number, "command", payload, key)


def stored(job_id: str, number: str, *outcomes: str, failures: int = 0) -> StoredJob:
    """A completed job that was stored at 1 s and did an attempt a second from 2 s on."""
    payload = json.dumps(wanted(number, failures).payload).encode()
    attempts = [
        Attempt(place, "default-1", 1001 + place, 1001.5 + place, outcome, None, 1001 + place)
        for place, outcome in enumerate(outcomes, start=1)
    ]
    failed = len(outcomes) - 1
    return StoredJob(
        id=job_id, type="command", status="completed", priority=5, attempt=len(outcomes),
        failures=failed, losses=outcomes.count("lost"), max_retries=5, created_at=1001,
        run_at=1001, started_at=attempts[-1].started_at, finished_at=attempts[-1].finished_at,
        expires_at=1004, key=None, batch_id=None, cancel_requested=False, payload=payload,
        checksum=crc32(payload),
        result=json.dumps({"number": number, "attempt": len(outcomes)}).encode(),
        attempts=attempts,
    )  # fmt: skip


def ran(job_id: str, attempt: int, how: str | None) -> Execution:
    began = 1.1 + attempt
    ended = None if how is None else at(began + 0.2)
    return Execution(job_id, attempt, "command", 100 + attempt, at(began), ended, how)


@pytest.fixture
def evidence() -> Evidence:
    """One job that went well, one that failed once, one that was lost at a kill, one unknown."""
    history = History(
        submissions=[
            Submission([wanted("1")], at(0.9), Answer.OK, at(1.1), 201, ["a"]),
            Submission([wanted("2", 1, key="key-2")], at(0.9), Answer.OK, at(1.1), 201, ["b"]),
            Submission([wanted("3")], at(0.9), Answer.OK, at(1.1), 201, ["c"]),
            Submission([wanted("4"), wanted("5")], at(0.9), Answer.UNKNOWN, at(1.1)),
            Submission([wanted("6")], at(0.9), Answer.FAIL, at(1.1), 429),
        ],
        cancellations=[Cancellation("a", at(4), Answer.FAIL, at(4.1))],
        sightings=[Sighting("a", "completed", 1, at(3)), Sighting("b", "pending", 0, at(1.2))],
        settlements=[Settlement("c", 1, "completed", "stale", at(3))],
        faults=[Injected("kill -9", at(2.3), at(2.3))],
    )
    jobs = {
        "a": stored("a", "1", "completed"),
        "b": replace(stored("b", "2", "failed", "completed", failures=1), key="key-2"),
        "c": stored("c", "3", "lost", "completed"),
    }
    executions = [
        ran("a", 1, "end"),
        ran("b", 1, "fail"), ran("b", 2, "end"),
        ran("c", 1, None), ran("c", 2, "end"),
    ]  # fmt: skip
    counts = {("command", "completed", 5): 3}
    return Evidence(history, executions, Database(jobs, counts, dict(counts), ["ok"]))


def test_a_clean_run_is_no_violation(evidence: Evidence) -> None:
    report = judge(evidence)
    assert report.violations == {}
    assert (report.acknowledged, report.unknown, report.jobs) == (3, 1, 3)
    assert (report.lost, report.duplicated, report.broken) == (0, 0, 0)


def replayed(evidence: Evidence) -> None:
    """The job that failed once was dead by that, and came back by a replay."""
    job = evidence.jobs["b"]
    job.max_retries, job.replays, job.failures = 0, [1], 0
    evidence.history.sightings.append(Sighting("b", "dead", 1, at(2.45)))


def test_a_replay_of_a_dead_job_is_no_violation(evidence: Evidence) -> None:
    replayed(evidence)
    assert judge(evidence).violations == {}


def test_a_dead_job_may_be_discarded(evidence: Evidence) -> None:
    job = evidence.jobs["b"]
    job.attempts, job.attempt, job.max_retries = job.attempts[:1], 1, 0
    job.status, job.result = "discarded", None
    evidence.executions.remove(evidence.executions_of["b"][1])
    del evidence.executions_of
    evidence.history.sightings.append(Sighting("b", "dead", 1, at(2.45)))
    evidence.database.counts = evidence.database.counted = {}
    assert judge(evidence).violations == {}


def breaks(sentence: str) -> Callable[[Spoil], Spoil]:
    """Declare a change to the clean run that breaks a rule."""

    def add(spoil: Spoil) -> Spoil:
        SPOILERS[spoil] = sentence
        return spoil

    return add


@breaks(LOST)
def lost(evidence: Evidence) -> None:
    del evidence.jobs["a"]
    evidence.executions.pop(0)


@breaks(LOST)
def stuck(evidence: Evidence) -> None:
    job = evidence.jobs["a"]
    job.status, job.attempts, job.result = "processing", [], None


@breaks("a job that was shown never disappears")
def vanished(evidence: Evidence) -> None:
    evidence.history.sightings.append(Sighting("a", "missing", 0, at(2)))


@breaks("nothing is there that nobody asked for")
def unasked(evidence: Evidence) -> None:
    evidence.jobs["z"] = stored("z", "99", "completed")


@breaks("nothing is there that nobody asked for")
def stored_though_refused(evidence: Evidence) -> None:
    evidence.jobs["z"] = stored("z", "6", "completed")


@breaks("a good request succeeds, or is asked to come back")
def refused(evidence: Evidence) -> None:
    evidence.history.submissions[-1].status = 422


@breaks("a good request succeeds, or is asked to come back")
def cancellation_of_a_job_that_is_not_found(evidence: Evidence) -> None:
    evidence.history.cancellations[0].status = 404


@breaks("one submission makes one job")
def stored_twice(evidence: Evidence) -> None:
    evidence.jobs["z"] = stored("z", "1", "completed")


@breaks("a batch is stored whole or not at all")
def half_a_batch(evidence: Evidence) -> None:
    evidence.jobs["z"] = stored("z", "4", "completed")


@breaks("one idempotency key is one job")
def key_of_two(evidence: Evidence) -> None:
    again = Submission([wanted("2", 1, key="key-2")], at(1.2), Answer.OK, at(1.3), 201, ["z"])
    evidence.history.submissions.append(again)
    evidence.jobs["z"] = replace(stored("z", "2", "completed"), key="key-2")


@breaks("a job comes back as it was sent")
def other_payload(evidence: Evidence) -> None:
    payload = b'{"number": "1"}'
    evidence.jobs["a"].payload, evidence.jobs["a"].checksum = payload, crc32(payload)


@breaks("a job comes back as it was sent")
def other_limits(evidence: Evidence) -> None:
    evidence.history.submissions[0].wanted[0].max_retries = 2
    evidence.history.submissions[1].wanted[0].priority = 9


@breaks("nothing starts after it has expired")
def too_late(evidence: Evidence) -> None:
    evidence.jobs["a"].expires_at = 1002


@breaks("nothing goes wrong inside the daemon that it does not expect")
def traceback_in_the_log(evidence: Evidence) -> None:
    evidence.log = "ready\nTraceback (most recent call last):\nKeyError: 'x'\n"


@breaks("after an acknowledged cancellation no attempt begins")
def began_though_cancelled(evidence: Evidence) -> None:
    evidence.history.cancellations.append(
        Cancellation("b", at(2.2), Answer.OK, at(2.3), "processing")
    )


@breaks("what was seen at its end stays there, and nothing starts again")
def began_after_its_end(evidence: Evidence) -> None:
    evidence.history.sightings.append(Sighting("b", "completed", 2, at(2.9)))


@breaks("the attempts on record lead to the state the job is in")
def attempt_missing(evidence: Evidence) -> None:
    evidence.jobs["b"].attempts.pop(0)


@breaks("the attempts on record lead to the state the job is in")
def dead_too_soon(evidence: Evidence) -> None:
    evidence.jobs["c"].attempts[-1].outcome = "failed"
    evidence.jobs["c"].status = "dead"


@breaks("the attempts on record lead to the state the job is in")
def went_on_after_its_end(evidence: Evidence) -> None:
    evidence.jobs["b"].attempts[0].outcome = "completed"


@breaks("the attempts on record lead to the state the job is in")
def replayed_alive(evidence: Evidence) -> None:
    evidence.jobs["b"].replays = [1]
    evidence.jobs["b"].failures = 0


@breaks("what was seen at its end stays there, and nothing starts again")
def began_after_a_death_before_its_replay(evidence: Evidence) -> None:
    replayed(evidence)
    evidence.history.sightings.append(Sighting("b", "dead", 2, at(3.05)))
    evidence.jobs["b"].attempt = 3


@breaks("failures and losses are those on record, at most 1 + max_retries")
def failure_not_counted(evidence: Evidence) -> None:
    evidence.jobs["b"].failures = 0


@breaks("failures and losses are those on record, at most 1 + max_retries")
def too_many_failures(evidence: Evidence) -> None:
    evidence.jobs["b"].max_retries = -1


@breaks("attempts follow each other in time")
def attempts_overlap(evidence: Evidence) -> None:
    evidence.jobs["b"].attempts[0].finished_at = 1003.2


@breaks("an attempt ends as its job wants it, unless a fault was there")
def lost_without_a_fault(evidence: Evidence) -> None:
    evidence.history.faults.clear()


@breaks(LOST_ELSEWHERE)
def lost_elsewhere(evidence: Evidence) -> None:
    evidence.jobs["c"].type = evidence.history.submissions[2].wanted[0].type = "remote"
    evidence.jobs["c"].attempts[0].worker = "host-55"
    evidence.history.faults[0].name = "pause of the daemon"


@breaks("an outcome is recorded only by the attempt that holds the lease")
def result_of_another_attempt(evidence: Evidence) -> None:
    evidence.jobs["c"].result = b'{"number": "3", "attempt": 1}'


@breaks("an outcome is recorded only by the attempt that holds the lease")
def late_outcome_taken(evidence: Evidence) -> None:
    evidence.history.settlements.append(Settlement("c", 1, "completed", "ok", at(3)))


@breaks("an attempt is started once")
def started_twice(evidence: Evidence) -> None:
    evidence.executions.append(replace(ran("a", 1, "end"), started=at(2.5), pid=7))


@breaks("every execution belongs to an attempt on record, and every success to an execution")
def ran_off_the_record(evidence: Evidence) -> None:
    evidence.executions.append(ran("a", 2, "fail"))


@breaks("every execution belongs to an attempt on record, and every success to an execution")
def completed_without_running(evidence: Evidence) -> None:
    evidence.executions.pop(0)


@breaks("executions of one job never overlap")
def two_at_once(evidence: Evidence) -> None:
    evidence.executions[1].ended = at(3.2)


@breaks("executions of one job never overlap")
def old_process_still_alive(evidence: Evidence) -> None:
    evidence.executions[4].overlapped = True


@breaks("work is done twice only when a fault was there")
def done_twice(evidence: Evidence) -> None:
    evidence.executions[1].how = "end"
    evidence.history.faults[0] = Injected("kill -9", at(3.3), at(3.3))


@breaks("nothing starts before its time")
def too_early(evidence: Evidence) -> None:
    evidence.history.submissions[0].wanted[0].delay = 5.0


@breaks("no more jobs run at a time than there are workers, and than a type may")
def too_many(evidence: Evidence) -> None:
    evidence.workers = {"default": 1}


@breaks("no more jobs run at a time than there are workers, and than a type may")
def too_many_of_a_type(evidence: Evidence) -> None:
    evidence.limits = {"command": 1}


@breaks("no more jobs of one key run at a time than its type allows")
def too_many_of_a_key(evidence: Evidence) -> None:
    for job_id in "ab":
        evidence.jobs[job_id].type, evidence.jobs[job_id].line = "every", "north"


def start(evidence: Evidence, kind: str, *seconds: float) -> None:
    """Have the first job be of this type, with attempts that begin then."""
    job = evidence.jobs["a"]
    job.type = kind
    job.attempts = [replace(job.attempts[0], started_at=1000 + each) for each in seconds]


@breaks(RATE)
def more_at_once_than_a_burst(evidence: Evidence) -> None:
    start(evidence, "rated", *[2.0] * 3)


@breaks(RATE)
def the_next_too_soon(evidence: Evidence) -> None:
    start(evidence, "rated", *[2.0] * 2, 2.49)


@breaks("nothing of a paused type starts")
def began_in_a_pause(evidence: Evidence) -> None:
    evidence.history.pauses.append(Pause("command", at(1.9), at(2.1)))


@breaks("an open breaker lets through no more than its probes")
def probed_at_once(evidence: Evidence) -> None:
    start(evidence, "breaking", 2.0)
    evidence.history.breakers.append(OpenBreaker("breaking", 1001.8, 1003))


@breaks("an open breaker lets through no more than its probes")
def probed_too_often(evidence: Evidence) -> None:
    start(evidence, "breaking", 2.0, 2.2)
    evidence.history.breakers.append(OpenBreaker("breaking", 1001, 1003))


@breaks("of every key as many as may run are in front, and they are the best")
def too_many_in_front(evidence: Evidence) -> None:
    evidence.history.lines.append(Line("every", "north", 1, [False]))


@breaks("of every key as many as may run are in front, and they are the best")
def left_short(evidence: Evidence) -> None:
    evidence.history.lines.append(Line("keyed", "north", 1, [True, True]))


@breaks("of every key as many as may run are in front, and they are the best")
def the_wrong_one_in_front(evidence: Evidence) -> None:
    evidence.history.lines.append(Line("every", "north", 0, [True, False]))


@breaks("of every key as many as may run are in front, and they are the best")
def held_back_without_a_key(evidence: Evidence) -> None:
    evidence.history.lines.append(Line("every", None, 5, [False, True]))


@breaks("the database is whole")
def damaged(evidence: Evidence) -> None:
    evidence.database.integrity = ["row 5 missing from index jobs_type"]


@breaks("every payload has the checksum it was stored with")
def flipped_bit(evidence: Evidence) -> None:
    evidence.jobs["a"].checksum = 1


@breaks("the counters equal the counts")
def miscounted(evidence: Evidence) -> None:
    evidence.database.counts["command", "pending", 5] = 1


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_what_breaks_a_rule_is_caught(evidence: Evidence, spoil: Spoil) -> None:
    spoil(evidence)
    report = judge(evidence)
    assert SPOILERS[spoil] in report.violations, report
    assert report.broken > 0
    assert (report.lost > 0) == (SPOILERS[spoil] == LOST)


def test_every_rule_is_tested_here() -> None:
    assert set(SPOILERS.values()) == set(RULES)


LIMITS = {sentence for sentence, rule in RULES.items() if rule.__module__.endswith(".limits")}


def test_what_keeps_to_the_limits_is_no_violation(evidence: Evidence) -> None:
    start(evidence, "rated", *[2.0] * 2, 2.5, *[3.5] * 2)
    evidence.history.pauses += [
        Pause("rated", at(2.01), at(2.16)),
        Pause("command", at(1), at(1.9)),
        Pause("command", at(3.1)),
    ]
    evidence.history.lines += [
        Line("keyed", "north", 1, [False, True, True]),
        Line("keyed", "south", 2, [True]),
        Line("every", None, 2, [False, False]),
        Line("command", "north", 2, [False, False]),
    ]
    assert LIMITS.isdisjoint(judge(evidence).violations)


def test_probes_in_time_are_no_violation(evidence: Evidence) -> None:
    start(evidence, "breaking", 1.9, 2.0, 2.3, 2.6, 2.61)
    evidence.history.breakers.append(OpenBreaker("breaking", 1002, 1002.605))
    assert LIMITS.isdisjoint(judge(evidence).violations)


def test_who_sets_the_clock_ahead_has_a_burst_at_once(evidence: Evidence) -> None:
    start(evidence, "every", *[2.0] * 15, *[2.2] * 15)
    evidence.history.clock.append((at(2.1), 3600))
    assert RATE not in judge(evidence).violations
    evidence.history.clock.clear()
    assert RATE in judge(evidence).violations


def test_a_rule_that_is_excused_is_silent(evidence: Evidence) -> None:
    too_early(evidence)
    evidence.history.excuse("nothing starts before its time", "the clock jumped")
    assert judge(evidence).violations == {}


def test_a_worker_that_is_dead_may_be_given_a_job(evidence: Evidence) -> None:
    attempt = evidence.jobs["c"].attempts[0]
    attempt.worker = "host-4711"
    evidence.history.faults = [Injected("kill -9 of worker", at(0.5), at(0.5), 4711)]
    assert judge(evidence).violations == {}
    attempt.worker = "host-4712"
    assert judge(evidence).broken == 1


def test_dates_of_a_clock_that_was_set_are_told_apart() -> None:
    history = History(began=at(0), clock=[(at(10), 3600), (at(20), 0), (at(30), -86400)])
    for seconds, ahead in ((5, 0), (15, 3600), (25, 0), (35, -86400)):
        assert history.real_time(at(seconds).wall + ahead) == at(seconds).wall
    assert History(began=at(0)).real_time(1005) == 1005


def meet_in_a_pause(evidence: Evidence) -> Injected:
    """The worker that began the first attempt at 2.1 s is stopped; the second begins at 3.1 s."""
    two_at_once(evidence)
    evidence.executions[1].kind = evidence.executions[2].kind = "remote"
    pause = Injected("pause of a remote worker", at(2.2), at(3), evidence.executions[1].pid)
    evidence.history.faults.append(pause)
    return pause


def test_two_executions_may_meet_where_the_worker_of_the_first_was_stopped(
    evidence: Evidence,
) -> None:
    meet_in_a_pause(evidence)
    assert judge(evidence).violations == {}


WIDER: dict[str, dict[str, Any]] = {
    "no pause": {"name": "slow disk"},
    "of somebody else": {"pid": 7},
    "over before it began": {"began": at(1), "ended": at(2)},
    "began before it did": {"began": at(1.5)},
    "over long before the second": {"ended": at(2.5)},
    "of a handler of ours": {"kind": "command"},
}


@pytest.mark.parametrize("change", WIDER)
def test_nothing_else_excuses_that_they_meet(evidence: Evidence, change: str) -> None:
    pause = meet_in_a_pause(evidence)
    for name, value in WIDER[change].items():
        setattr(evidence.executions[1] if name == "kind" else pause, name, value)
    assert list(judge(evidence).violations) == ["executions of one job never overlap"]


@pytest.mark.parametrize(
    ("name", "pid", "rules"),
    [
        ("kill -9", 7, []),
        ("kill -9 of worker", 55, []),
        ("pause of a remote worker", 55, []),
        ("kill -9 of worker", 7, [LOST_ELSEWHERE]),
        ("pause of the daemon", 7, [LOST_ELSEWHERE]),
        ("no space", None, [LOST_ELSEWHERE]),
    ],
)
def test_who_loses_a_job_elsewhere(
    evidence: Evidence, name: str, pid: int | None, rules: list[str]
) -> None:
    lost_elsewhere(evidence)
    evidence.history.faults[:] = [Injected(name, at(2.2), at(2.4), pid)]
    assert list(judge(evidence).violations) == rules


def test_a_violation_tells_what_happened_to_the_job(evidence: Evidence) -> None:
    evidence.history.began = at(0)
    evidence.history.work.append(Injected("a slow disk", at(2), at(4)))
    meet_in_a_pause(evidence).name = "something else"
    [(told,)] = judge(evidence).violations.values()
    for part in (
        "b attempts 1 and 2",
        "attempt 1 failed by default-1 2.000 to 2.500",
        "execution of attempt 1 in remote 101 2.100 to 3.200: fail",
        "fault 2.200 to 3.000: something else (101)",
        "fault 2.000 to 4.000: a slow disk",
    ):
        assert part in told
