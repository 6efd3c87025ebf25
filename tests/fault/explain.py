"""What there is to say about a violation: the job's attempts, who ran it, which faults there were.

All times are seconds since the run began.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fault.evidence import Evidence, StoredJob

BEFORE = 10.0
"""Seconds before a job's first attempt in which a fault may still be why."""


def explain(evidence: Evidence, text: str) -> str:
    """What a rule says of a job, which it names first, with all that is known about it below."""
    job = evidence.jobs.get(text.partition(" ")[0].rstrip(":"))
    if job is None:
        return text
    return "\n".join([text, *(f"    {line}" for line in _story(evidence, job))])


def _story(evidence: Evidence, job: StoredJob) -> Iterator[str]:
    began = evidence.history.began
    for attempt in job.attempts:
        yield (
            f"attempt {attempt.number} {attempt.outcome} by {attempt.worker} "
            f"{attempt.started_at - began.wall:.3f} to {attempt.finished_at - began.wall:.3f}: "
            f"{(attempt.error or '').partition(chr(10))[0]}"
        )
    for one in evidence.executions_of.get(job.id, []):
        ended = "?" if one.ended is None else f"{one.ended.monotonic - began.monotonic:.3f}"
        yield (
            f"execution of attempt {one.attempt} in {one.kind} {one.pid} "
            f"{one.started.monotonic - began.monotonic:.3f} to {ended}: {one.how}"
        )
    yield from _faults(evidence, job)


def _faults(evidence: Evidence, job: StoredJob) -> Iterator[str]:
    history = evidence.history
    first = min((one.started_at for one in job.attempts), default=job.created_at) - BEFORE
    last = max((one.finished_at for one in job.attempts), default=history.began.wall)
    for fault in sorted([*history.work, *history.faults], key=lambda one: one.began):
        if fault.ended.wall >= first and fault.began.wall <= last:
            whom = "" if fault.pid is None else f" ({fault.pid})"
            yield (
                f"fault {fault.began.wall - history.began.wall:.3f} to "
                f"{fault.ended.wall - history.began.wall:.3f}: {fault.name}{whom}"
            )
