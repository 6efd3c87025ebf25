"""Reasons as JSON: a code for programs, words for people, and the data behind them."""

from __future__ import annotations

import msgspec

from jobqueued.api.wire import encode, time_or_none
from jobqueued.engine.gate import Gate
from jobqueued.engine.why import Why, WhyType

_RUN_AT = ("scheduled", "retry_backoff")


class WireReason(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"kind": "type"}):
    """One reason; data that it does not have is left out.

    `until` is when it goes away by itself, `running_ids` are some of those that run, and with
    `more` there are more jobs ahead than are counted.
    """

    code: str
    detail: str
    kind: str
    run_at: str | None = None
    since: str | None = None
    until: str | None = None
    by: str | None = None
    note: str | None = None
    reason: str | None = None
    failures: int | None = None
    last_error: str | None = None
    running: int | None = None
    limit: int | None = None
    pool: str | None = None
    running_ids: list[str] | None = None
    key: str | None = None
    ahead: int | None = None
    more: bool = False


class WireWhy(msgspec.Struct, kw_only=True, rename={"kind": "type"}):
    """Why a job is not running, in the order in which the gates are passed.

    No reasons while it waits means that it is about to start. `estimated_start` is null where
    nobody can tell, with `unknown_because` where no reason says why; `ahead` is null where the
    job is not in line.
    """

    id: str
    kind: str
    status: str
    detail: str
    reasons: list[WireReason]
    ahead: int | None
    more_ahead: bool
    estimated_start: str | None
    unknown_because: str | None
    expires_at: str | None
    worker: str | None
    since: str | None


class WireBacklog(msgspec.Struct):
    """How many jobs have one reason; a code of null means that nothing holds them."""

    code: str | None
    jobs: int
    detail: str


class WireTypeWhy(msgspec.Struct, rename={"kind": "type"}):
    """What holds a type, and its waiting jobs by what they wait for."""

    kind: str
    gates: list[WireReason]
    backlog: list[WireBacklog]


def why_json(why: Why) -> bytes:
    """Of one job."""
    job, ahead = why.job, why.ahead
    return encode(
        WireWhy(
            id=job.id,
            kind=job.type,
            status=job.status,
            detail=why.detail,
            reasons=[_reason(gate) for gate in why.reasons],
            ahead=None if ahead is None else ahead.number,
            more_ahead=ahead is not None and ahead.more,
            estimated_start=time_or_none(why.estimated_start),
            unknown_because=why.unknown_because,
            expires_at=time_or_none(job.expires_at),
            worker=job.worker if job.status == "processing" else None,
            since=time_or_none(job.started_at if job.status == "processing" else job.finished_at),
        )
    )


def why_type_json(why: WhyType) -> bytes:
    """Of all that wait of a type."""
    backlog = [WireBacklog(part.code, part.jobs, part.detail) for part in why.backlog]
    return encode(WireTypeWhy(why.type, [_reason(gate) for gate in why.gates], backlog))


def _reason(gate: Gate) -> WireReason:
    is_later, is_retry = gate.code in _RUN_AT, gate.code == "retry_backoff"
    until = time_or_none(gate.until)
    ids = gate.running_ids
    return WireReason(
        code=gate.code, detail=gate.detail, kind=gate.type, run_at=until if is_later else None,
        since=time_or_none(gate.since), until=None if is_later else until, by=gate.by,
        note=gate.note, reason=None if is_retry else gate.reason, failures=gate.failures,
        last_error=gate.reason if is_retry else None, running=gate.running, limit=gate.limit,
        pool=gate.pool, running_ids=None if ids is None else list(ids), key=gate.key,
        ahead=gate.ahead, more=gate.more,
    )  # fmt: skip
