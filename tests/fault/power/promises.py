"""What a run had promised by some moment, in the words of its clients and handlers."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.fault.executions import Execution
from tests.fault.history import Answer, History, Moment

TERMINAL = {"completed", "dead", "discarded", "cancelled", "expired"}


class Word(StrEnum):
    """What was said about a job."""

    ACCEPTED = "accepted"
    SHOWN = "shown"
    CANCELLED = "cancelled"
    STARTED = "started"


@dataclass(slots=True)
class Promise:
    """Something that somebody outside has seen and relies on from then on."""

    at: float
    """Seconds of the monotonic clock."""
    job_id: str
    word: Word
    payload: Any = None
    """Of an accepted job."""
    status: str = ""
    """Of a job that was shown."""
    attempt: int = 0
    """At least so many were started."""


@dataclass(slots=True)
class Promises:
    """Everything that was promised in a run, in the order of time."""

    made: list[Promise]
    asked: dict[str, float]
    """By number, when each job was asked for first."""
    removable: dict[str, float] = field(default_factory=dict)
    """By id, since when a job may have outlived its retention; none whose key still counts."""

    def by(self, moment: float) -> list[Promise]:
        """All that was promised before a moment."""
        return self.made[: bisect_left(self.made, moment, key=lambda promise: promise.at)]

    def may_be_gone(self, job_id: str, moment: float) -> bool:
        """Whether retention may have removed the job by then."""
        return self.removable.get(job_id, math.inf) <= moment

    def may_be_there(self, number: str, moment: float) -> bool:
        """Whether anybody had asked for the job by then."""
        return self.asked.get(number, math.inf) <= moment


def promises(
    history: History, executions: Sequence[Execution], retention: float = math.inf
) -> Promises:
    """What the history of a run and the notes of its handlers come to."""
    made = [*_accepted(history), *_shown(history), *_cancelled(history)]
    made += [
        Promise(one.started.monotonic, one.job_id, Word.STARTED, attempt=one.attempt)
        for one in executions
    ]
    asked: dict[str, float] = {}
    for submission, wanted, _ in history.wanted():
        asked.setdefault(wanted.number, submission.invoked.monotonic)
    keyless = {job_id for _, wanted, job_id in history.wanted() if wanted.key is None}
    removable: dict[str, float] = {}
    for job_id, ended in _ends(history, executions):
        if job_id in keyless:
            removable.setdefault(job_id, ended.monotonic + retention)
    return Promises(sorted(made, key=lambda promise: promise.at), asked, removable)


def _accepted(history: History) -> Iterator[Promise]:
    for submission, wanted, job_id in history.wanted():
        if job_id is not None and submission.answered is not None:
            at = submission.answered.monotonic
            yield Promise(at, job_id, Word.ACCEPTED, payload=wanted.payload)


def _shown(history: History) -> Iterator[Promise]:
    for seen in history.sightings:
        yield Promise(
            seen.at.monotonic, seen.job_id, Word.SHOWN, status=seen.status, attempt=seen.attempt
        )


def _cancelled(history: History) -> Iterator[Promise]:
    for one in history.cancellations:
        if one.answer is Answer.OK and one.answered is not None:
            yield Promise(one.answered.monotonic, one.job_id, Word.CANCELLED)


def _ends(history: History, executions: Sequence[Execution]) -> Iterator[tuple[str, Moment]]:
    """When a job may have ended, the earliest first for each."""
    ends = [(one.job_id, one.ended) for one in executions if one.ended is not None]
    ends += [(one.job_id, one.invoked) for one in history.cancellations]
    ends += [
        (job_id, Moment(submission.invoked.monotonic + wanted.expires, 0.0))
        for submission, wanted, job_id in history.wanted()
        if job_id is not None and wanted.expires is not None
    ]
    return iter(sorted(ends, key=lambda end: end[1].monotonic))
