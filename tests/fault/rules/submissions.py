"""Rules about what was promised to clients."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from jobqueued.model.job import TERMINAL, TRANSITIONS, Status
from tests.fault.evidence import TOLERANCE, Evidence, StoredJob
from tests.fault.history import Answer, Sighting
from tests.fault.rules.registry import rule

LOST = "every acknowledged job is there and has come to its end"


@rule(LOST)
def nothing_lost(evidence: Evidence) -> Iterator[str]:
    for job_id, wanted in evidence.history.acknowledged().items():
        job = evidence.jobs.get(job_id)
        if job is None:
            yield f"{job_id} ({wanted.number}) is lost"
        elif job.status not in TERMINAL:
            yield f"{job_id} ({wanted.number}) is still {job.status}"


@rule("a job that was shown never disappears")
def nothing_vanishes(evidence: Evidence) -> Iterator[str]:
    for seen in evidence.history.sightings:
        if seen.status == "missing":
            yield f"{seen.job_id} was not found"


@rule("nothing is there that nobody asked for")
def nothing_unexpected(evidence: Evidence) -> Iterator[str]:
    possible = {
        wanted.number
        for submission, wanted, _ in evidence.history.wanted()
        if submission.answer is not Answer.FAIL
    }
    for job in evidence.jobs.values():
        if job.number not in possible:
            yield f"{job.id}: number {job.number}"


@rule("a good request succeeds, or is asked to come back")
def nothing_refused(evidence: Evidence) -> Iterator[str]:
    for submission in evidence.history.submissions:
        if submission.status not in (None, 200, 201, 429, 503):
            numbers = [wanted.number for wanted in submission.wanted]
            yield f"submission of {numbers}: {submission.status}"
    for call in evidence.history.cancellations:
        # A job that has ended cannot be cancelled.
        if call.status not in (None, 200, 409, 503):
            yield f"cancellation of {call.job_id}: {call.status}"


@rule("one submission makes one job")
def nothing_stored_twice(evidence: Evidence) -> Iterator[str]:
    calls = Counter(
        wanted.number
        for submission, wanted, _ in evidence.history.wanted()
        if submission.answer is not Answer.FAIL
    )
    stored = Counter(job.number for job in evidence.jobs.values() if job.number is not None)
    for number, times in stored.items():
        if times > max(1, calls[number]):
            yield f"{number} is stored {times} times, asked for {calls[number]} times"


@rule("a batch is stored whole or not at all")
def batches_whole(evidence: Evidence) -> Iterator[str]:
    stored = {job.number for job in evidence.jobs.values()}
    calls = Counter(wanted.number for _, wanted, _ in evidence.history.wanted())
    for submission in evidence.history.submissions:
        # What was also sent in another call may be there through that one.
        numbers = {wanted.number for wanted in submission.wanted if calls[wanted.number] == 1}
        missing = numbers - stored
        if missing and missing != numbers and submission.answer is not Answer.FAIL:
            yield f"of {sorted(numbers)} only {sorted(numbers & stored)}"


@rule("one idempotency key is one job")
def keys_unique(evidence: Evidence) -> Iterator[str]:
    told: defaultdict[str, set[str]] = defaultdict(set)
    for _, wanted, job_id in evidence.history.wanted():
        if wanted.key is not None and job_id is not None:
            told[wanted.key].add(job_id)
    stored: defaultdict[str, set[str]] = defaultdict(set)
    for job in evidence.jobs.values():
        if job.key is not None:
            stored[job.key].add(job.id)
    for key in told.keys() | stored.keys():
        if len(told[key] | stored[key]) > 1:
            yield f"{key}: told {sorted(told[key])}, stored {sorted(stored[key])}"


@rule("a job comes back as it was sent")
def payloads_as_sent(evidence: Evidence) -> Iterator[str]:
    for job_id, wanted in evidence.history.acknowledged().items():
        job = evidence.jobs.get(job_id)
        if job is None:
            continue
        if job.payload is None or json.loads(job.payload) != wanted.payload:
            yield f"{job_id}: another payload"
        if (job.type, job.key, job.line) != (wanted.type, wanted.key, wanted.line):
            yield f"{job_id}: another type or key"
        if wanted.priority not in (None, job.priority):
            yield f"{job_id}: priority {job.priority}, not {wanted.priority}"
        if wanted.max_retries not in (None, job.max_retries):
            yield f"{job_id}: max_retries {job.max_retries}, not {wanted.max_retries}"


@rule("after an acknowledged cancellation no attempt begins")
def cancelled_stays_cancelled(evidence: Evidence) -> Iterator[str]:
    for call in evidence.history.cancellations:
        job = evidence.jobs.get(call.job_id)
        if call.answer is not Answer.OK or call.answered is None or job is None:
            continue
        if call.job_status == "cancelled" and job.status != "cancelled":
            yield f"{job.id} was cancelled and is {job.status}"
        for attempt in job.attempts:
            if attempt.started_at > call.answered.wall + TOLERANCE:
                yield f"{job.id} attempt {attempt.number} began after the cancellation"


def _was_led_on(job: StoredJob, seen: Sighting) -> bool:
    """Whether an operator replayed or discarded what was seen dead."""
    if not TRANSITIONS[Status(seen.status)]:
        return False
    return job.status == "discarded" or any(attempt >= seen.attempt for attempt in job.replays)


@rule("what was seen at its end stays there, and nothing starts again")
def ends_are_final(evidence: Evidence) -> Iterator[str]:
    for seen in evidence.history.sightings:
        job = evidence.jobs.get(seen.job_id)
        if seen.status not in TERMINAL or job is None or _was_led_on(job, seen):
            continue
        if (job.status, job.attempt) != (seen.status, seen.attempt):
            yield f"{job.id} was seen {seen.status} and is {job.status}"
        for execution in evidence.executions_of[job.id]:
            if execution.started.monotonic > seen.at.monotonic:
                yield f"{job.id} attempt {execution.attempt} began after it was seen {seen.status}"
