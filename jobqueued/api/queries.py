"""Query strings: known parameters, each checked, every fault named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from jobqueued.api.errors import Problem
from jobqueued.api.fields import LABEL_TEXT, MOMENT_TEXT, Faults, Label, Moment, milliseconds
from jobqueued.model.ids import place_of
from jobqueued.model.job import Status
from jobqueued.model.submission import JobQuery

MAX_PARAMETERS = 200
MAX_WAIT = 60.0
MAX_LIMIT = 500
DEFAULT_LIMIT = 50


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a query string: how it is read, what to say when it cannot be."""

    kind: Any
    read: Callable[[str], Any]
    wants: str
    about: str
    repeatable: bool = False


Parameters = Mapping[str, Parameter]


def read_query(text: str, known: Parameters) -> dict[str, Any]:
    """The parameters that were given, a tuple for repeatable ones."""
    values: dict[str, Any] = {}
    faults = Faults()
    for name, value in _pairs(text):
        parameter = known.get(name)
        if parameter is None:
            faults.add_unknown("", name, known)
        elif name in values and not parameter.repeatable:
            faults.add(name, "is given more than once")
        else:
            _read_one(values, name, value, parameter, faults)
    faults.raise_any()
    return values


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        # What aiohttp could not decode is a surrogate, which does not encode.
        text.encode()
        return parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise Problem(
            400, "bad_request", "The query string is not UTF-8 or has too many parameters."
        ) from None


def _read_one(
    values: dict[str, Any], name: str, value: str, parameter: Parameter, faults: Faults
) -> None:
    try:
        read = parameter.read(value)
    except ValueError:
        faults.add(name, parameter.wants)
        return
    values[name] = (*values.get(name, ()), read) if parameter.repeatable else read


def job_query(values: dict[str, Any]) -> JobQuery:
    """The filters of `GET /jobs`."""
    return JobQuery(
        statuses=values.get("status", ()),
        type=values.get("type"),
        batch_id=values.get("batch_id"),
        correlation_id=values.get("correlation_id"),
        idempotency_key=values.get("idempotency_key"),
        key=values.get("key"),
        created_after=values.get("created_after"),
        created_before=values.get("created_before"),
        before_id=values.get("cursor"),
        limit=values.get("limit", DEFAULT_LIMIT),
    )


def dead_query(values: dict[str, Any]) -> JobQuery:
    """The filters of `GET /dlq`."""
    return job_query(values | {"status": (Status.DEAD,)})


def _number(text: str, kind: Any) -> Any:
    return msgspec.json.decode(text.encode(), type=kind)


def _read_wait(text: str) -> float:
    return min(MAX_WAIT, float(_number(text, Annotated[float, Meta(ge=0)])))


def _read_limit(text: str) -> int:
    return int(_number(text, Annotated[int, Meta(ge=1, le=MAX_LIMIT)]))


def _read_attempt(text: str) -> int:
    return int(_number(text, Annotated[int, Meta(ge=1, le=2**31)]))


def _read_flag(text: str) -> bool:
    if text in ("1", "true"):
        return True
    if text in ("0", "false"):
        return False
    raise ValueError("not a flag")


def _read_label(text: str) -> str:
    return msgspec.convert(text, Label)


def _read_moment(text: str) -> int:
    # A plus that was not escaped arrives as a space.
    moment: Any = msgspec.convert(text.replace(" ", "+"), Moment)
    return milliseconds(moment)


def read_cursor(text: str) -> str:
    """A cursor of an earlier answer."""
    if not text.isascii() or place_of(text) is None:
        raise ValueError("not a cursor")
    return text


WAIT: Parameters = {
    "wait": Parameter(
        float,
        _read_wait,
        "must be a number of seconds, 0 or more",
        "Answer when the job is terminal or these seconds (at most 60) are over",
    )
}
CHECK: Parameters = {
    "dry_run": Parameter(bool, _read_flag, "must be 1 or 0", "1 only checks, and stores nothing")
}
LOG: Parameters = {
    "attempt": Parameter(
        int, _read_attempt, "must be the number of an attempt", "Left out: the latest attempt"
    ),
    "follow": Parameter(
        bool, _read_flag, "must be 1 or 0", "1 streams the output until the job ends"
    ),
}


def _label(about: str) -> Parameter:
    return Parameter(str, _read_label, LABEL_TEXT, about)


LIST: Parameters = {
    "status": Parameter(
        Status,
        Status,
        f"must be one of {', '.join(Status)}",
        "Only jobs in this state; may be repeated",
        repeatable=True,
    ),
    "type": _label("Only jobs of this type"),
    "batch_id": _label("Only jobs of this batch"),
    "correlation_id": _label("Only jobs with this correlation id"),
    "idempotency_key": _label("Only the job with this idempotency key"),
    "key": _label("Only jobs with this key"),
    "created_after": Parameter(Moment, _read_moment, MOMENT_TEXT, "Only jobs created after this"),
    "created_before": Parameter(Moment, _read_moment, MOMENT_TEXT, "Only jobs created before this"),
    "limit": Parameter(
        Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
        _read_limit,
        f"must be a whole number from 1 to {MAX_LIMIT}",
        f"Jobs on one page; {DEFAULT_LIMIT} when left out",
    ),
    "cursor": Parameter(
        str, read_cursor, "must be a next_cursor of an earlier answer", "Begin after this"
    ),
}

DEAD_LIST: Parameters = {name: LIST[name] for name in ("type", "limit", "cursor")}
