"""Remote workers: leasing jobs and reporting what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from msgspec import Meta, Raw

from jobqueued import clock
from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.fields import (
    LABEL_TEXT,
    LONGEST_TIME_SECONDS,
    Faults,
    Fields,
    Label,
    field,
    read_fields,
    read_object,
    unknown_name,
    verbatim,
)
from jobqueued.api.leases import MAX_LEASES, read_leases
from jobqueued.api.wire_leases import leased_json, settled_json
from jobqueued.config import Config
from jobqueued.model.job import MAX_ERROR, MAX_RESULT, Claimed
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.submission import Poll, Report

if TYPE_CHECKING:
    from jobqueued.engine.service import Engine

MAX_TYPES = 100
MAX_WAIT_SECONDS = 60
SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS = 5, 3600

POLL = Fields(
    {
        "types": field(
            Annotated[list[str], Meta(min_length=1, max_length=MAX_TYPES)],
            f"must be a list of 1 to {MAX_TYPES} names of job types",
            "The remote job types this worker runs",
            required=True,
        ),
        "max": field(
            Annotated[int, Meta(ge=1, le=MAX_LEASES)],
            f"must be a whole number from 1 to {MAX_LEASES}",
            "Most jobs to hand out",
            default=1,
        ),
        "lease_seconds": field(
            Annotated[float, Meta(ge=SHORTEST_LEASE_SECONDS, le=LONGEST_LEASE_SECONDS)],
            f"must be a number of seconds from {SHORTEST_LEASE_SECONDS} to {LONGEST_LEASE_SECONDS}",
            "How long the jobs are the worker's without a heartbeat; left out, the type's own",
        ),
        "wait_seconds": field(
            Annotated[float, Meta(ge=0)],
            f"must be a number of seconds from 0; above {MAX_WAIT_SECONDS} is {MAX_WAIT_SECONDS}",
            "How long to wait when there is nothing to do",
        ),
        "worker": field(Label, LABEL_TEXT, "Who asks; shown on the job", required=True),
    }
)
SETTLE = Fields({"leases": verbatim("The attempts that ended", required=True)})
REPORT = Fields(
    {
        "token": field(Label, LABEL_TEXT, "The lease token of the attempt", required=True),
        "outcome": field(
            Literal["completed", "retry", "fatal", "released"],
            'must be "completed", "retry", "fatal" or "released"',
            "How it ended; released: not at all, it runs again and that is no failure",
            required=True,
        ),
        "result": verbatim("Any JSON value to keep with the job"),
        "error": field(str, "must be text", "What went wrong"),
        "retry_after_seconds": field(
            Annotated[float, Meta(ge=0, le=LONGEST_TIME_SECONDS)],
            "must be a number of seconds from 0 to ten years",
            "When to try again; left out, the type's backoff",
        ),
    }
)

_KINDS = {
    "completed": OutcomeKind.COMPLETED,
    "retry": OutcomeKind.FAILED,
    "fatal": OutcomeKind.FATAL,
    "released": OutcomeKind.INTERRUPTED,
}


class Delivery(Answer):
    """Jobs on their way to a worker; those of an answer that cannot be sent are handed back."""

    def __init__(self, engine: Engine, jobs: list[Claimed], asked_at: float) -> None:
        waited = clock.monotonic() - asked_at

        def runs_for(token: str) -> float:
            return waited + engine.lease_left(token)

        super().__init__(200, leased_json(jobs, engine.config.types, runs_for))
        self._engine, self._jobs = engine, jobs

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send all of it."""
        try:
            return await super().prepare(request)
        except BaseException:
            self._engine.hand_back(self._jobs)
            raise


async def lease_jobs(call: Call) -> web.StreamResponse:
    """Hand out jobs, at once or when they come."""
    asked_at = clock.monotonic()
    poll = parse_poll(await call.body(), call.engine.config)
    return Delivery(call.engine, await call.open_ended(call.engine.lease(poll)) or [], asked_at)


async def settle_leases(call: Call) -> web.StreamResponse:
    """Record what became of attempts; a late one changes nothing."""
    reports = parse_reports(await call.body())
    recorded = await call.engine.report(reports)
    return Answer(200, settled_json([report.token for report in reports], recorded))


def parse_poll(body: bytes, config: Config) -> Poll:
    """A worker's wish, every fault named."""
    faults = Faults()
    values = read_fields(read_object(body), POLL, faults)
    for index, name in enumerate(values.get("types", ())):
        job_type = config.types.get(name)
        if job_type is None:
            message = unknown_name("job type", name, config.types)
            faults.add(f"types[{index}]", message, "unknown_type")
        elif job_type.handler.kind != "remote":
            faults.add(f"types[{index}]", "is run by the daemon itself: set remote = true for it")
    faults.raise_any()
    lease = values.get("lease_seconds")
    wait = min(values.get("wait_seconds", 0), MAX_WAIT_SECONDS)
    return Poll(
        types=tuple(dict.fromkeys(values["types"])),
        most=values.get("max", 1),
        worker=values["worker"],
        lease=None if lease is None else round(lease * 1000),
        wait=round(wait * 1000),
    )


def parse_reports(body: bytes) -> list[Report]:
    """The reports of a body, every fault named."""
    return [_report(values) for values in read_leases(body, SETTLE, _read_report)]


def _read_report(given: dict[str, Raw], faults: Faults, where: str) -> dict[str, Any]:
    values = read_fields(given, REPORT, faults, where)
    if len(values.get("result", b"")) > MAX_RESULT:
        faults.add(f"{where}result", f"is larger than {MAX_RESULT} bytes")
    return values


def _report(values: dict[str, Any]) -> Report:
    kind = _KINDS[values["outcome"]]
    completed = kind is OutcomeKind.COMPLETED
    after = values.get("retry_after_seconds")
    return Report(
        token=values["token"],
        outcome=Outcome(
            kind=kind,
            result=values.get("result"),
            error=None
            if completed
            else (values.get("error") or "the worker gave no reason")[:MAX_ERROR],
            retry_after_ms=None if after is None else round(after * 1000),
        ),
    )
