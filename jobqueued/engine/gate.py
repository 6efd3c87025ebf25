"""What can keep the jobs of a type from starting, as data and in words."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jobqueued import clock


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One reason that holds now. Moments are milliseconds since the epoch.

    `until` is when it opens by itself; None where something else has to happen first.
    """

    code: str
    type: str
    since: int | None = None
    until: int | None = None
    by: str | None = None
    note: str | None = None
    reason: str | None = None
    running: int | None = None
    limit: int | None = None
    pool: str | None = None
    running_ids: tuple[str, ...] | None = None
    key: str | None = None
    ahead: int | None = None
    more: bool = False
    """Whether there are more than `ahead`."""
    failures: int | None = None

    @property
    def detail(self) -> str:
        """The same in words."""
        return _WORDS[self.code](self)


def _scheduled(gate: Gate) -> str:
    return f"it is scheduled for {clock.rfc3339(gate.until or 0)}"


def _retry_backoff(gate: Gate) -> str:
    times = "once" if gate.failures == 1 else f"{gate.failures} times"
    failed = f"it failed {times} and is tried again {_at(gate.until)}"
    return f"{failed}; the last error: {gate.reason}" if gate.reason else failed


def _expired(gate: Gate) -> str:
    return f"it expired {_at(gate.until)} and is about to be taken out of the queue"


def _disk_full(_: Gate) -> str:
    return "the disk is full, so no job can be started until there is space"


def _jobs_ahead(gate: Gate) -> str:
    more = "more than " if gate.more else ""
    verb = "goes" if gate.ahead == 1 and not gate.more else "go"
    return f"{more}{gate.ahead:,} {'job' if gate.ahead == 1 else 'jobs'} {verb} before it"


def _draining(_: Gate) -> str:
    return "the daemon is shutting down and starts nothing more"


def _no_worker(gate: Gate) -> str:
    return gate.reason or f"nobody runs jobs of type {gate.type}"


def _type_paused(gate: Gate) -> str:
    note = f": {gate.note}" if gate.note else ""
    return f"type {gate.type} was paused {_at(gate.since)} by {gate.by}{note}"


def _breaker_open(gate: Gate) -> str:
    following = f"one job is tried {_at(gate.until)}"
    if gate.until is None:
        following = "the job that is tried still runs"
    return f"the breaker of type {gate.type} opened {_at(gate.since)} ({gate.reason}); {following}"


def _type_limit(gate: Gate) -> str:
    return f"{gate.running} of {gate.limit} jobs of type {gate.type} run already"


def _key_limit(gate: Gate) -> str:
    if gate.key is None:
        return gate.reason or ""
    bound = "more than " if gate.more else ""
    ahead = f", {bound}{gate.ahead:,} others of it go first" if gate.ahead else ""
    return f"{gate.running} of at most {gate.limit} jobs of its key {gate.key!r} run{ahead}"


def _rate_limited(gate: Gate) -> str:
    return f"the rate of type {gate.type} lets the next job start {_at(gate.until)}"


def _host_resting(gate: Gate) -> str:
    return f"what runs jobs of type {gate.type} asked for a rest; they go on {_at(gate.until)}"


def _pool_full(gate: Gate) -> str:
    return f"all {gate.limit} workers of pool {gate.pool} are at work"


def _at(moment: int | None) -> str:
    return "" if moment is None else f"at {clock.rfc3339(moment)}"


_WORDS: dict[str, Callable[[Gate], str]] = {
    "scheduled": _scheduled,
    "retry_backoff": _retry_backoff,
    "expired": _expired,
    "disk_full": _disk_full,
    "draining": _draining,
    "no_worker": _no_worker,
    "type_paused": _type_paused,
    "breaker_open": _breaker_open,
    "type_limit": _type_limit,
    "key_limit": _key_limit,
    "rate_limited": _rate_limited,
    "host_resting": _host_resting,
    "pool_full": _pool_full,
    "jobs_ahead": _jobs_ahead,
}
CODES = tuple(_WORDS)
"""In the order in which the gates are passed."""
