"""Cancelling by filter: which jobs, how many at a time."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Raw

from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.fields import (
    LABEL_TEXT,
    MOMENT_TEXT,
    Faults,
    Field,
    Fields,
    Label,
    Moment,
    field,
    milliseconds,
    read_fields,
    read_object,
)
from jobqueued.api.peer import peer_of
from jobqueued.api.queries import MAX_LIMIT, read_cursor
from jobqueued.api.wire import cancelled_json
from jobqueued.model.job import CANCELLABLE, WAITING, Status
from jobqueued.model.submission import JobQuery

log = logging.getLogger(__name__)

_Cancellable = Literal["scheduled", "pending", "retrying", "processing"]
_LABELS = ("type", "batch_id", "correlation_id", "idempotency_key", "key")
_MOMENTS = ("created_after", "created_before")
_FILTERS = frozenset({"status", *_LABELS, *_MOMENTS})


def _label(about: str) -> Field:
    return field(Label, LABEL_TEXT, about)


def _cursor(raw: Raw) -> str:
    return read_cursor(msgspec.json.decode(raw, type=str))


CANCEL = Fields(
    {
        "status": field(
            Annotated[list[_Cancellable], Meta(min_length=1, max_length=len(CANCELLABLE))],
            f"must be a list of some of {', '.join(sorted(CANCELLABLE))}",
            "Only jobs in these states; left out, all that wait and none that run",
        ),
        "type": _label("Only jobs of this type"),
        "batch_id": _label("Only jobs of this batch"),
        "correlation_id": _label("Only jobs with this correlation id"),
        "idempotency_key": _label("Only the job with this idempotency key"),
        "key": _label("Only jobs with this key"),
        "created_after": field(Moment, MOMENT_TEXT, "Only jobs created after this"),
        "created_before": field(Moment, MOMENT_TEXT, "Only jobs created before this"),
        "cursor": Field(
            str,
            "must be a cursor of an earlier answer",
            "Go on where an earlier call ended, leaving alone what was submitted since the first",
            read=_cursor,
        ),
        "limit": field(
            Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
            f"must be a whole number from 1 to {MAX_LIMIT}",
            "How many jobs in this call",
            default=MAX_LIMIT,
        ),
        "dry_run": field(bool, "must be true or false", "Only count, and change nothing"),
    }
)


async def cancel_jobs(call: Call) -> web.StreamResponse:
    """Cancel some of the jobs that fit."""
    values = _read(await call.body())
    dry_run = bool(values.pop("dry_run", False))
    query = _query(values, values.get("cursor") or call.engine.boundary())
    cancelled = await call.engine.cancel_some(query, dry_run=dry_run)
    if cancelled.count and not dry_run:
        asked = " ".join(f"{name}={values[name]}" for name in sorted(_FILTERS & values.keys()))
        log.info("%s cancelled %d jobs: %r", peer_of(call.request), cancelled.count, asked)
    return Answer(200, cancelled_json(cancelled))


def _read(body: bytes) -> dict[str, Any]:
    faults = Faults()
    values = read_fields(read_object(body), CANCEL, faults)
    if not faults.found and _FILTERS.isdisjoint(values):
        faults.add("body", f"must say which jobs, by one of {', '.join(sorted(_FILTERS))}")
    faults.raise_any()
    return values


def _query(values: dict[str, Any], before_id: str) -> JobQuery:
    given: dict[str, Any] = {name: values.get(name) for name in _LABELS}
    given |= {name: milliseconds(values[name]) for name in _MOMENTS if name in values}
    statuses = tuple(Status(one) for one in dict.fromkeys(values.get("status", sorted(WAITING))))
    return JobQuery(
        **given,
        statuses=statuses,
        before_id=before_id,
        limit=values.get("limit", MAX_LIMIT),
    )
