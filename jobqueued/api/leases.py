"""Signs of life from whoever holds a lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta, Raw

from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.fields import (
    LABEL_TEXT,
    Faults,
    Fields,
    Label,
    field,
    read_fields,
    read_list,
    read_object,
    verbatim,
)
from jobqueued.api.wire_leases import beats_json
from jobqueued.model.submission import Beat

MAX_LEASES = 1000
MAX_EXTEND_SECONDS = 3600
MAX_MESSAGE = 1024

HEARTBEAT = Fields({"leases": verbatim("The leases to extend", required=True)})
BEAT = Fields(
    {
        "token": field(Label, LABEL_TEXT, "The lease token of the attempt", required=True),
        "extend_seconds": field(
            Annotated[float, Meta(gt=0, le=MAX_EXTEND_SECONDS)],
            f"must be a number of seconds above 0, at most {MAX_EXTEND_SECONDS}",
            "How long the lease is to run from now; left out, the type's own",
        ),
        "progress": field(dict[str, Raw], "must be an object", "How far the job is"),
    }
)
PROGRESS = Fields(
    {
        "percent": field(
            Annotated[float, Meta(ge=0, le=100)],
            "must be a number from 0 to 100",
            "How much is done",
            required=True,
        ),
        "message": field(
            Annotated[str, Meta(max_length=MAX_MESSAGE)],
            f"must be text of at most {MAX_MESSAGE} characters",
            "What is being done",
        ),
    }
)

ReadOne = Callable[[dict[str, Raw], Faults, str], dict[str, Any]]


async def heartbeat(call: Call) -> web.StreamResponse:
    """Extend leases and note progress; the token is the authority."""
    beats = parse_heartbeat(await call.body())
    return Answer(200, beats_json(await call.engine.heartbeat(beats)))


def parse_heartbeat(body: bytes) -> list[Beat]:
    """The beats of a body, every fault named."""
    return [_beat(values) for values in read_leases(body, HEARTBEAT, _read_beat)]


def read_leases(body: bytes, fields: Fields, read: ReadOne) -> list[dict[str, Any]]:
    """What a body says of each of its leases, every fault named."""
    faults = Faults()
    values = read_fields(read_object(body), fields, faults)
    found = []
    if "leases" in values:
        entries = read_list(Raw(values["leases"]), MAX_LEASES, "leases", faults)
        found = [read(entry, faults, where) for where, entry in entries]
    faults.raise_any()
    return found


def _read_beat(given: dict[str, Raw], faults: Faults, where: str) -> dict[str, Any]:
    values = read_fields(given, BEAT, faults, where)
    if "progress" in values:
        values |= read_fields(values["progress"], PROGRESS, faults, f"{where}progress.")
    return values


def _beat(values: dict[str, Any]) -> Beat:
    seconds = values.get("extend_seconds")
    return Beat(
        token=values["token"],
        extend=None if seconds is None else max(1, round(seconds * 1000)),
        percent=values.get("percent"),
        message=values.get("message"),
    )
