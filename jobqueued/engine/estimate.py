"""When a waiting job may start, from how long jobs of its type took lately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from jobqueued.engine.gate import Gate
from jobqueued.engine.parts import Shared
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Standing

_NEVER_BY_ITSELF = frozenset({"disk_full", "draining", "no_worker", "type_paused", "expired"})
_BUSY = frozenset({"pool_full", "type_limit", "jobs_ahead"})
_SECOND = 1_000


class Estimate(msgspec.Struct, frozen=True):
    """When a job may start; where nobody can tell and no gate says why, what is missing."""

    start: int | None = None
    unknown_because: str | None = None


class Line(msgspec.Struct, frozen=True):
    """How many go before a job: of its own type, and of all types of its pool."""

    own: int
    all: int
    more: bool
    """Whether there are more than were counted."""


def estimated_start(
    shared: Shared, standing: Standing, line: Line, reasons: Iterable[Gate], now: int
) -> Estimate:
    """When the job may start, rounded to the second."""
    held = {gate.code: gate for gate in reasons}
    job_type = shared.config.types.get(standing.job.type)
    queue = standing.key_queue
    uncounted = line.more or (queue is not None and queue.more)
    if job_type is None or uncounted or held.keys() & _NEVER_BY_ITSELF:
        return Estimate()
    if _waits_for_a_probe(shared, job_type, line, held):
        return Estimate()
    wait = 0 if standing.is_next else _wait(shared, job_type, standing, line, held)
    if wait is None:
        return Estimate(unknown_because=_unknown_because(shared, job_type.name))
    opens = [gate.until for gate in held.values() if gate.until is not None]
    by_rate = _by_rate(shared, job_type, line, now)
    start = max([now + wait, standing.job.run_at, by_rate, *opens])
    return Estimate(-(-start // _SECOND) * _SECOND)


def _unknown_because(shared: Shared, name: str) -> str | None:
    # How long jobs took is known of this process alone.
    if shared.recent.durations(name).count:
        return None
    return f"no job of type {name} has completed since the daemon started"


def _waits_for_a_probe(
    shared: Shared, job_type: JobType, line: Line, held: dict[str, Gate]
) -> bool:
    """Whether it depends on how a job ends by which an open breaker is tried."""
    is_open = shared.gates.control(job_type.name).breaker_since is not None
    gate = held.get("breaker_open")
    under_way = gate is not None and gate.until is None
    return is_open and job_type.breaker is not None and (under_way or line.own > 0)


def _wait(
    shared: Shared, job_type: JobType, standing: Standing, line: Line, held: dict[str, Gate]
) -> int | None:
    """How long those take that run now or go first; None where none has completed lately."""
    busy = bool(held.keys() & _BUSY)
    usual = shared.recent.durations(job_type.name).p50
    waits: list[int] = []
    for jobs, at_once in _turns(shared, job_type, standing, line, busy):
        if jobs and (usual is None or not at_once):
            return None
        waits.append(jobs * (usual or 0) // (at_once or 1))
    return max(waits)


def _turns(
    shared: Shared, job_type: JobType, standing: Standing, line: Line, busy: bool
) -> Iterator[tuple[int, int | None]]:
    """Everything that it takes turns in: how many before it, and how many of them at once."""
    if job_type.handler.kind == "remote":
        # Without a limit, how many of their workers there are is anybody's guess.
        most = job_type.max_running or shared.gates.running(job_type.name) or None
    else:
        most = shared.gates.most(job_type.name)
        yield line.all + busy, shared.config.pools[job_type.pool].workers
    yield line.own + busy, most
    if standing.key_queue is not None:
        yield standing.key_queue.ahead + 1, job_type.max_running_per_key


def _by_rate(shared: Shared, job_type: JobType, line: Line, now: int) -> int:
    """When the rate will have let those of its type through, and the job itself."""
    rate, spent = job_type.rate, shared.gates.control(job_type.name).spent_until
    if rate is None:
        return now
    missing = line.own + 1 - max(1, rate.tokens(spent, now))
    return rate.next_token_at(spent, now) + max(0, missing) * rate.per // rate.count
