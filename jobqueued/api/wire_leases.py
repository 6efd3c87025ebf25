"""Leases as JSON: what remote workers are given, and what they are told of what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from jobqueued.api.wire import WireJob, encode, job_fields, time_or_none
from jobqueued.clock import rfc3339
from jobqueued.model.job import Claimed, Job
from jobqueued.model.job_type import JobType
from jobqueued.model.submission import BeatAnswer


class WireLease(msgspec.Struct):
    """The right to report what became of an attempt, and until when it holds.

    It can be extended up to the deadline, which is when the attempt times out. Count
    `expires_in_seconds` from the moment the jobs were asked for: clocks may differ.
    """

    token: str
    expires_at: str
    deadline: str
    expires_in_seconds: float


class WireLeasedJob(WireJob):
    """A job for a remote worker."""

    lease: WireLease


class WireLeasedJobs(msgspec.Struct):
    """Jobs for a remote worker, best first; none when there was nothing to do."""

    jobs: list[WireLeasedJob]


class WireSettled(msgspec.Struct):
    """Whether an outcome was recorded: `ok` or `stale`."""

    token: str
    status: str


class WireSettledLeases(msgspec.Struct):
    """Leases in the order they were sent."""

    leases: list[WireSettled]


class WireBeat(msgspec.Struct):
    """What became of one lease: `ok`, `stale` or `cancelled`.

    Count `expires_in_seconds` from the moment the heartbeat was sent: clocks may differ.
    """

    token: str
    status: str
    expires_at: str | None
    expires_in_seconds: float | None


class WireBeats(msgspec.Struct):
    """Leases in the order they were sent."""

    leases: list[WireBeat]


def beats_json(answers: Iterable[BeatAnswer]) -> bytes:
    """What became of each lease."""
    return encode(WireBeats([_beat(one) for one in answers]))


def _beat(answer: BeatAnswer) -> WireBeat:
    seconds = None if answer.expires_in is None else answer.expires_in / 1000
    return WireBeat(answer.token, answer.status, time_or_none(answer.expires_at), seconds)


def leased_json(
    claimed: Iterable[Claimed], types: Mapping[str, JobType], runs_for: Callable[[str], float]
) -> bytes:
    """Jobs for a remote worker; `runs_for` says for how many seconds a lease runs."""
    jobs = [
        _leased(one, one.job, types.get(one.type), runs_for(one.lease.token))
        for one in claimed
        if one.job
    ]
    return encode(WireLeasedJobs(jobs))


def _leased(claimed: Claimed, job: Job, job_type: JobType | None, runs_for: float) -> WireLeasedJob:
    expires_at = job.lease_expires_at or claimed.started_at
    deadline = expires_at if job_type is None else claimed.started_at + job_type.timeout
    lease = WireLease(
        claimed.lease.token, rfc3339(expires_at), rfc3339(deadline), round(runs_for, 3)
    )
    return WireLeasedJob(*(*job_fields(job), lease))


def settled_json(tokens: Iterable[str], recorded: Iterable[bool]) -> bytes:
    """Whether each outcome was recorded."""
    pairs = zip(tokens, recorded, strict=True)
    return encode(WireSettledLeases([WireSettled(t, "ok" if was else "stale") for t, was in pairs]))
