"""Why a job is not running: every gate that holds it, and when it may start."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobqueued import clock
from jobqueued.engine.controls import Controls
from jobqueued.engine.estimate import Line, estimated_start
from jobqueued.engine.gate import CODES, Gate
from jobqueued.engine.parts import Shared
from jobqueued.model.errors import NotFound
from jobqueued.model.job import Job, Status
from jobqueued.store.interface import Counted, Standing

LASTING = frozenset({"disk_full", "draining", "no_worker", "type_paused", "breaker_open"})
"""What may still hold a job when its time comes; other gates come and go with every job."""
_PASSING = frozenset({"pool_full", "type_limit", "rate_limited", "host_resting", "key_limit"})


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What holds a job; `ahead` is None where it is not in line."""

    job: Job
    detail: str
    reasons: list[Gate]
    ahead: Counted | None = None
    estimated_start: int | None = None
    unknown_because: str | None = None


class Share(msgspec.Struct, frozen=True):
    """How many waiting jobs of a type have the same reason; None: they are about to start."""

    code: str | None
    jobs: int
    detail: str


class WhyType(msgspec.Struct, frozen=True):
    """What holds a type, and its waiting jobs by what they wait for."""

    type: str
    gates: list[Gate]
    backlog: list[Share]


class Reasons:
    """Asks the gates and the claim itself, so that it cannot disagree with them."""

    def __init__(self, shared: Shared, controls: Controls) -> None:
        self._shared = shared
        self._controls = controls

    async def of_job(self, job_id: str) -> Why:
        """What holds a job now, in the order in which the gates are passed."""
        now = clock.now()
        asks = self._shared.dispatcher.planned(now)
        standing = await self._shared.store.standing(job_id, asks, now)
        if standing is None:
            raise NotFound(f"there is no job {job_id}")
        job = standing.job
        if job.status is Status.PROCESSING or job.is_terminal:
            return Why(job=job, detail=_over(job), reasons=[])
        line = self._line(standing)
        found = self._reasons(standing, line, now)
        reasons = sorted(found, key=lambda gate: _ORDER[gate.code])
        estimate = estimated_start(self._shared, standing, line, reasons, now)
        return Why(
            job=job, detail=_detail(job, reasons, estimate.start), reasons=reasons,
            estimated_start=estimate.start, unknown_because=estimate.unknown_because,
            ahead=Counted(line.all, line.more) if job.status is Status.PENDING else None,
        )  # fmt: skip

    async def of_type(self, name: str) -> WhyType:
        """What the waiting jobs of a type wait for."""
        in_front = await self._shared.store.in_front(name)
        state = self._controls.one(name)
        gates = list(self._of_type(name, clock.now()))
        backlog = _later(state.counts)
        pending = state.counts.get("pending", 0)
        by_key = state.job_type is not None and state.job_type.max_running_per_key is not None
        held_back = max(0, pending - in_front.number) if by_key and not in_front.more else 0
        if held_back:
            words = "they wait for other jobs of their key"
            backlog.append(Share("key_limit", held_back, words))
        if pending > held_back:
            backlog.append(_ready(pending - held_back, gates))
        return WhyType(name, gates, backlog)

    def _reasons(self, standing: Standing, line: Line, now: int) -> Iterator[Gate]:
        job = standing.job
        gates = self._of_type(job.type, now)
        if job.status is not Status.PENDING:
            yield _not_yet(job)
            yield from (gate for gate in gates if gate.code in LASTING)
            return
        if job.expires_at is not None and job.expires_at <= now:
            yield Gate(code="expired", type=job.type, until=job.expires_at)
            return
        held = list(gates)
        if standing.key_queue is not None:
            held.append(self._key_limit(standing))
        yield from (_with_running(gate, standing) for gate in held)
        if not standing.is_next and (line.all or not held):
            yield Gate(code="jobs_ahead", type=job.type, ahead=max(1, line.all), more=line.more)

    def _of_type(self, name: str, now: int) -> Iterator[Gate]:
        if self._shared.store.disk_full:
            yield Gate(code="disk_full", type=name)
        yield from self._shared.gates.holding(name, now)

    def _key_limit(self, standing: Standing) -> Gate:
        job_type = self._shared.config.types.get(standing.job.type)
        queue = standing.key_queue
        assert queue is not None
        return Gate(
            code="key_limit", type=standing.job.type, key=queue.key, running=queue.running,
            running_ids=queue.running_ids, ahead=queue.ahead, more=queue.more,
            limit=None if job_type is None else job_type.max_running_per_key,
        )  # fmt: skip

    def _line(self, standing: Standing) -> Line:
        """Those of its type that are better or wait longer, and what is better in its pool."""
        job, counts = standing.job, self._shared.store.counts
        if job.status is not Status.PENDING:
            # Who waits now may still be there when its time comes.
            own = counts.of(job.type, "pending")
            return Line(own, own, False)
        if standing.is_next:
            return Line(0, 0, False)
        own = standing.ahead.number + counts.better_than(job.type, job.priority)
        rivals = (counts.better_than(name, job.priority) for name in self._rivals(job.type))
        return Line(own, own + sum(rivals), standing.ahead.more)

    def _rivals(self, name: str) -> Iterator[str]:
        """The other types of its pool whose jobs could start when a worker is free."""
        job_type = self._shared.config.types.get(name)
        if job_type is None or job_type.handler.kind == "remote":
            return
        for other in self._shared.gates.types_of(job_type.pool):
            gate = self._shared.gates.first(other, clock.now())
            if other != name and (gate is None or gate.code in _PASSING):
                yield other


_ORDER = {code: place for place, code in enumerate(CODES)}


def _with_running(gate: Gate, standing: Standing) -> Gate:
    """A type at its limit says which of its jobs run."""
    if gate.code != "type_limit":
        return gate
    return msgspec.structs.replace(gate, running_ids=standing.running_ids)


def _not_yet(job: Job) -> Gate:
    if job.status is Status.SCHEDULED:
        return Gate(code="scheduled", type=job.type, until=job.run_at)
    return Gate(
        code="retry_backoff", type=job.type, until=job.run_at, failures=job.failures,
        reason=(job.last_error or "").partition("\n")[0] or None,
    )  # fmt: skip


def _over(job: Job) -> str:
    if job.status is Status.PROCESSING:
        return f"it runs since {clock.rfc3339(job.started_at or 0)} on {job.worker}"
    return f"it is over: {job.status} since {clock.rfc3339(job.finished_at or 0)}"


def _detail(job: Job, reasons: list[Gate], start: int | None) -> str:
    said = "it is about to start"
    if reasons:
        said = "; ".join(gate.detail for gate in reasons)
    expires_at = job.expires_at
    if expires_at is not None and start is not None and start > expires_at:
        said += f"; it expires before it would start, {clock.rfc3339(expires_at)}"
    return said


def _later(counts: dict[str, int]) -> list[Share]:
    words = {
        "scheduled": ("scheduled", "their time has not come"),
        "retrying": ("retry_backoff", "they failed and are tried again later"),
    }
    return [
        Share(code, counts[status], detail)
        for status, (code, detail) in words.items()
        if counts.get(status, 0)
    ]


def _ready(jobs: int, gates: list[Gate]) -> Share:
    if gates:
        return Share(gates[0].code, jobs, gates[0].detail)
    return Share(None, jobs, "nothing holds them: they start as workers come free")
