"""Rules about the attempts on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from jobqueued.model.retry import FAILURES
from tests.fault.evidence import ELSEWHERE, TOLERANCE, Attempt, Evidence, StoredJob
from tests.fault.history import Injected
from tests.fault.rules.registry import rule

LAST = {"completed", "fatal", "cancelled"}
"""Outcomes after which nothing comes."""
HARMLESS = (
    "pause of the daemon", "pause of a launcher", "pause of a handler", "pause of a remote worker",
    "kill -9 of a launcher", "kill -9 of a handler", "kill -9 of receiver", "kill -9 of worker",
    "no space", "disk full",
)  # fmt: skip
"""To jobs that are run elsewhere, unless it is their own worker that it happens to."""
RECORD = "the attempts on record lead to the state the job is in"


@rule(RECORD)
def paths_legal(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        outcomes = [attempt.outcome for attempt in job.attempts]
        told = f"{job.id} is {job.status} after {outcomes}"
        numbers = [attempt.number for attempt in job.attempts]
        under_way = job.status == "processing"
        if numbers != list(range(1, job.attempt + 1 - under_way)):
            yield f"{told}, numbered {numbers} of {job.attempt}"
        *earlier, present = [[one.outcome for one in life] for life in job.lives]
        if any(LAST & set(life[:-1]) for life in (*earlier, present)):
            yield f"{told}: it went on after its end"
        if not all(_is_death(job, life) for life in earlier):
            yield f"{told}: replayed after {job.replays} though it was not dead"
        if not _fits(job, present):
            yield told


def _is_death(job: StoredJob, outcomes: list[str]) -> bool:
    """Whether a job is dead after these attempts; only then it can be replayed."""
    failed = [outcome for outcome in outcomes if outcome in FAILURES]
    return outcomes[-1:] == ["fatal"] or len(failed) == job.max_retries + 1


def _fits(job: StoredJob, outcomes: list[str]) -> bool:
    """Whether the last outcome leads to the status."""
    last = outcomes[-1] if outcomes else None
    if job.status == "completed":
        return last == "completed"
    if job.status in ("dead", "discarded"):
        return last == "fatal" or job.failures == job.max_retries + 1
    if job.status == "cancelled":
        return job.cancel_requested and last not in ("completed", "fatal")
    return last not in LAST and job.failures <= job.max_retries


@rule("failures and losses are those on record, at most 1 + max_retries")
def failures_counted(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        failed = [attempt for attempt in job.lives[-1] if attempt.outcome in FAILURES]
        lost = [attempt for attempt in failed if attempt.outcome == "lost"]
        if (job.failures, job.losses) != (len(failed), len(lost)):
            yield f"{job.id}: {job.failures} and {job.losses}, {len(failed)} and {len(lost)} stored"
        if len(failed) > 1 + job.max_retries:
            yield f"{job.id} failed {len(failed)} times, max_retries {job.max_retries}"


@rule("attempts follow each other in time")
def attempts_in_order(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        for attempt in job.attempts:
            if attempt.finished_at < attempt.started_at:
                yield f"{job.id} attempt {attempt.number} ended before it began"
        for earlier, later in pairwise(job.attempts):
            if later.started_at < earlier.finished_at:
                yield f"{job.id} attempt {later.number} began before {earlier.number} ended"


@rule("nothing starts after it has expired")
def never_late(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        for attempt in job.attempts:
            if job.expires_at is not None and attempt.started_date >= job.expires_at:
                yield f"{job.id} attempt {attempt.number}"


@rule("an attempt ends as its job wants it, unless a fault was there")
def ends_explained(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        plan = evidence.plans.get(job.number or "")
        if plan is None:
            continue
        for attempt in job.attempts:
            if attempt.outcome == "cancelled" and job.cancel_requested:
                continue
            if attempt.outcome == _planned(plan, attempt):
                continue
            if evidence.fault_in(attempt) is None:
                yield f"{job.id} attempt {attempt.number} {attempt.outcome}: {attempt.error}"


@rule("a job elsewhere is lost only with its worker or with its daemon")
def lost_with_somebody(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        for attempt in job.attempts:
            lost = job.type in ELSEWHERE and attempt.outcome == "lost"
            if lost and not any(_may_lose(fault, attempt) for fault in evidence.history.faults):
                yield f"{job.id} attempt {attempt.number} {attempt.outcome}: {attempt.error}"


def _may_lose(fault: Injected, attempt: Attempt) -> bool:
    """Whether a fault ended, or stopped, who ran an attempt or who kept its lease."""
    if fault.began.wall > attempt.finished_at + TOLERANCE:
        return False
    if fault.is_pause and fault.ended.wall < attempt.started_at - TOLERANCE:
        return False
    if attempt.was_given_to(fault.pid):
        return True
    is_late = fault.ended.wall >= attempt.started_at - TOLERANCE
    return is_late and not fault.name.startswith(HARMLESS)


def _planned(plan: dict[str, int], attempt: Attempt) -> str:
    if attempt.number > plan["failures"]:
        return "completed"
    return "fatal" if plan["fatal"] else "failed"


@rule("an outcome is recorded only by the attempt that holds the lease")
def stale_outcomes_refused(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        if job.result is not None and job.attempts:
            last = job.attempts[-1]
            if last.outcome != "completed" or json.loads(job.result)["attempt"] != last.number:
                yield f"{job.id}: result {job.result!r} after attempt {last.number} {last.outcome}"
    for told in evidence.history.settlements:
        stored = evidence.jobs.get(told.job_id)
        if stored is None or told.answer == "unknown":
            continue
        outcomes = {attempt.number: attempt.outcome for attempt in stored.attempts}
        kept = outcomes.get(told.attempt) == told.outcome
        if told.answer == "ok" and not kept:
            yield f"{stored.id} attempt {told.attempt}: {told.outcome} taken and not kept"
        later = [number for number in outcomes if number > told.attempt]
        replayed = any(attempt >= told.attempt for attempt in stored.replays)
        if told.answer == "ok" and told.outcome in LAST and later and not replayed:
            yield f"{stored.id} attempt {told.attempt}: {told.outcome} taken, then {later}"
