"""Rules about what the handlers saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tests.fault.evidence import ELSEWHERE, TOLERANCE, Evidence
from tests.fault.executions import Execution
from tests.fault.rules.registry import rule

POOLS = {"single": "narrow"}
"""Of types that are not in the default pool."""
CLOCK_STEP = 0.002
"""Seconds; the daemon counts in milliseconds."""
TIME_TO_STOP = 0.5
"""Seconds a handler has to end after its process, which was stopped past its lease, goes on."""


@rule("an attempt is started once")
def started_once(evidence: Evidence) -> Iterator[str]:
    starts = Counter((one.job_id, one.attempt) for one in evidence.executions)
    for (job_id, attempt), times in starts.items():
        if times > 1:
            yield f"{job_id} attempt {attempt} was started {times} times"


@rule("every execution belongs to an attempt on record, and every success to an execution")
def executions_on_record(evidence: Evidence) -> Iterator[str]:
    for one in evidence.executions:
        job = evidence.jobs.get(one.job_id)
        if job is None or one.attempt > job.attempt:
            yield f"{one.job_id} attempt {one.attempt} ran and is not on record"
    ended = {(one.job_id, one.attempt) for one in evidence.executions if one.how == "end"}
    for job in evidence.jobs.values():
        if job.status == "completed" and (job.id, job.attempt) not in ended:
            yield f"{job.id} attempt {job.attempt} completed, and no handler said so"


@rule("executions of one job never overlap")
def never_overlapping(evidence: Evidence) -> Iterator[str]:
    for job_id, executions in evidence.executions_of.items():
        for earlier, later in pairwise(executions):
            met = earlier.ended is not None and later.started < earlier.ended
            if (met or later.overlapped) and not _stood_still(evidence, earlier, later):
                yield f"{job_id} attempts {earlier.attempt} and {later.attempt}"


def _stood_still(evidence: Evidence, earlier: Execution, later: Execution) -> bool:
    """Whether the earlier one was in a worker's process that was stopped: nobody can end that."""
    return earlier.kind == "remote" and any(
        fault.is_pause
        and fault.pid == earlier.pid
        and earlier.started.monotonic <= fault.began.monotonic + TOLERANCE
        and fault.began.monotonic <= later.started.monotonic
        and later.started.monotonic <= fault.ended.monotonic + TIME_TO_STOP
        for fault in evidence.history.faults
    )


@rule("work is done twice only when a fault was there")
def duplicates_explained(evidence: Evidence) -> Iterator[str]:
    for job_id, times in done_more_than_once(evidence).items():
        job = evidence.jobs.get(job_id)
        unrecorded = [one for one in (job.attempts if job else []) if one.outcome != "completed"]
        faulty = [one for one in unrecorded if evidence.fault_in(one)]
        if len(faulty) < times - 1:
            yield f"{job_id} was done {times} times"


def done_more_than_once(evidence: Evidence) -> dict[str, int]:
    """How often each job was done that was done more than once."""
    ends = Counter(one.job_id for one in evidence.executions if one.how == "end")
    return {job_id: times for job_id, times in ends.items() if times > 1}


@rule("nothing starts before its time")
def never_early(evidence: Evidence) -> Iterator[str]:
    due: dict[str, float] = {}
    for submission, wanted, _ in evidence.history.wanted():
        if wanted.delay:
            # The same key may be sent many times: the first that was stored counts.
            earliest = submission.invoked.wall + wanted.delay
            due[wanted.number] = min(earliest, due.get(wanted.number, earliest))
    for job in evidence.jobs.values():
        earliest = due.get(job.number or "", job.created_at)
        for first in evidence.executions_of[job.id][:1]:
            early = earliest - first.started.wall
            if early > CLOCK_STEP:
                yield f"{job.id} started {early:.3f} s early"


@rule("no more jobs run at a time than there are workers, and than a type may")
def within_limits(evidence: Evidence) -> Iterator[str]:
    types = {job.id: job.type for job in evidence.jobs.values()}
    here = {job_id: kind for job_id, kind in types.items() if kind not in ELSEWHERE}
    pools = {job_id: POOLS.get(kind, "default") for job_id, kind in here.items()}
    yield from beyond(evidence, pools, evidence.workers)
    yield from beyond(evidence, types, evidence.limits)


def beyond(
    evidence: Evidence, lane_of: Mapping[str, str], most: Mapping[str, int]
) -> Iterator[str]:
    """Where more jobs of a lane ran at a time than may."""
    running: Counter[str] = Counter()
    for moment, change, job_id in sorted(_changes(evidence)):
        lane = lane_of.get(job_id, "")
        running[lane] += change
        if lane in most and change > 0 and running[lane] > most[lane]:
            yield f"{running[lane]} of {lane} at {moment:.3f}, at most {most[lane]}"


def _changes(evidence: Evidence) -> Iterator[tuple[float, int, str]]:
    """Starts, and ends as early as they may have been."""
    for one in evidence.executions:
        ended = min(_possible_ends(evidence, one), default=None)
        if ended is not None and ended > one.started.monotonic:
            yield one.started.monotonic, 1, one.job_id
            yield ended, -1, one.job_id


def _possible_ends(evidence: Evidence, one: Execution) -> Iterator[float]:
    """When the handler said so, when the daemon had the outcome, when a fault struck."""
    if one.ended is not None:
        yield one.ended.monotonic
    job = evidence.jobs.get(one.job_id)
    for attempt in job.attempts if job is not None else []:
        if attempt.number == one.attempt and one.how not in ("end", "fail"):
            yield attempt.finished_at - one.started.wall + one.started.monotonic
            fault = evidence.fault_in(attempt)
            if fault is not None:
                yield fault.began.monotonic
