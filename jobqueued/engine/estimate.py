"""When a waiting job may start, from how long jobs of its type took lately."""

from __future__ import annotations

from collections.abc import Iterable

from jobqueued.engine.gate import Gate
from jobqueued.engine.parts import Shared
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Counted, Standing

_NEVER_BY_ITSELF = frozenset({"disk_full", "draining", "no_worker", "type_paused", "expired"})
_SECOND = 1_000


def estimated_start(
    shared: Shared, standing: Standing, ahead: Counted | None, reasons: Iterable[Gate], now: int
) -> int | None:
    """Rounded to the second; None where nobody can tell."""
    held = {gate.code: gate for gate in reasons}
    job_type = shared.config.types.get(standing.job.type)
    if job_type is None or held.keys() & _NEVER_BY_ITSELF:
        return None
    before = ahead or Counted(shared.store.counts.of(job_type.name, "pending"))
    if "breaker_open" in held and (held["breaker_open"].until is None or before.number):
        return None
    line = 0 if standing.is_next else _line(shared, job_type, standing, before, held)
    if line is None or before.more:
        return None
    opens = [gate.until for gate in held.values() if gate.until is not None]
    start = max([now, standing.job.run_at, *opens])
    # What comes later passes the line meanwhile: it is over by then, or still to be waited for.
    start = max(start, now + line, _by_rate(job_type, before.number, held))
    return -(-start // _SECOND) * _SECOND


def _line(
    shared: Shared, job_type: JobType, standing: Standing, before: Counted, held: dict[str, Gate]
) -> int | None:
    """How long those take that run now or go first; None where none has completed lately."""
    busy = held.keys() & {"pool_full", "type_limit", "jobs_ahead"}
    turns = [(before.number + bool(busy), _slots(shared, job_type))]
    if standing.key_queue is not None:
        turns.append((standing.key_queue.ahead + 1, job_type.max_running_per_key))
    if not any(jobs for jobs, _ in turns):
        return 0
    usual = shared.recent.durations(job_type.name).p50
    waits = [usual * jobs // slots for jobs, slots in turns if usual is not None and jobs and slots]
    return max(waits) if len(waits) == sum(1 for jobs, _ in turns if jobs) else None


def _slots(shared: Shared, job_type: JobType) -> int | None:
    """How many of a type can run at once; remote workers without a limit are anybody's guess."""
    if job_type.handler.kind == "remote":
        return job_type.max_running or shared.gates.running(job_type.name) or None
    return shared.gates.most(job_type.name)


def _by_rate(job_type: JobType, ahead: int, held: dict[str, Gate]) -> int:
    """When the rate has let all those ahead through, where it is what holds them."""
    gate, rate = held.get("rate_limited"), job_type.rate
    if gate is None or gate.until is None or rate is None:
        return 0
    return gate.until + ahead * rate.per // rate.count
