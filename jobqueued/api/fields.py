"""Fields of a request: read one by one, so that every fault is found and not only the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from jobqueued.api.errors import FieldFault, Problem
from jobqueued.config.faults import did_you_mean, quoted
from jobqueued.model.change import MAX_NOTE
from jobqueued.model.job import MAX_LABEL

MAX_FAULTS = 1000
"""Faults listed in one answer; a body of millions of them is not worth the time."""
FEW_FAULTS = 5
FEW_NAMES = 10
LONGEST_TIME_MS = 10 * 366 * 24 * 3600 * 1000
"""How far ahead a job may be planned: ten years."""
LONGEST_TIME_SECONDS = LONGEST_TIME_MS // 1000

INVALID = "invalid_request"
TOO_LARGE = "payload_too_large"

Label = Annotated[
    str,
    # The end is written as a lookahead because `$` would let a newline through.
    Meta(min_length=1, max_length=MAX_LABEL, pattern=r"^[^\x00-\x1f\x7f-\x9f]*(?![\s\S])"),
]
Moment = Annotated[datetime, Meta(tz=True)]

LABEL_TEXT = f"must be text of 1 to {MAX_LABEL} characters without control characters"
MOMENT_TEXT = 'must be a time as in RFC 3339, with its offset: "2026-01-31T12:00:00Z"'

NOTE = (
    Annotated[
        str,
        Meta(max_length=MAX_NOTE, pattern=r"^(?=\s*\S)[^\x00-\x1f\x7f-\x9f]*(?![\s\S])"),
    ],
    f"must be text on one line, of 1 to {MAX_NOTE} characters",
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_NULL = b"null"
NOT_SENT = Raw(_NULL)

_STATUS = {TOO_LARGE: 413}


class Field(msgspec.Struct, frozen=True):
    """A field that may be sent: its type, what to say when it is not that, what it is for."""

    kind: Any
    wants: str
    about: str
    required: bool = False
    default: Any = None
    read: Callable[[Raw], Any] = bytes


class Fields(dict[str, Field]):
    """The fields an object may have, by name."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        super().__init__(fields)
        self.required = tuple(name for name, one in fields.items() if one.required)
        self._whole = msgspec.json.Decoder(_struct_of(fields))

    def read_whole(self, body: bytes) -> Any:
        """All fields in one go, None for those not sent; None for all when anything is at fault."""
        try:
            return self._whole.decode(body)
        except (ValueError, RecursionError):
            return None


def _struct_of(fields: Mapping[str, Field]) -> type[msgspec.Struct]:
    """All fields as one type; null is the same as not sent."""
    types = [
        (name, Raw, NOT_SENT)
        if one.kind is Any
        else (name, one.kind)
        if one.required
        else (name, one.kind | None, None)
        for name, one in sorted(fields.items(), key=lambda item: not item[1].required)
    ]
    return msgspec.defstruct("Whole", types, forbid_unknown_fields=True, kw_only=True)


def field(
    kind: Any, wants: str, about: str, *, required: bool = False, default: Any = None
) -> Field:
    """A field whose value is decoded as `kind`."""
    decode = msgspec.json.Decoder(kind).decode
    return Field(kind, wants, about, required, default, decode)


def verbatim(about: str, *, required: bool = False, default: Any = None) -> Field:
    """A field kept as the JSON text it was sent as."""
    return Field(Any, "", about, required, default)


class Faults:
    """Every fault found so far; `raise_any` turns them into one problem."""

    def __init__(self) -> None:
        self.found: list[FieldFault] = []
        self._codes: set[str] = set()

    @property
    def are_few(self) -> bool:
        """Whether there is time for a suggestion yet."""
        return len(self.found) < FEW_FAULTS

    def add(self, name: str, message: str, code: str = INVALID) -> None:
        """Note what is wrong with one field."""
        self._codes.add(code)
        if len(self.found) < MAX_FAULTS:
            self.found.append(FieldFault(name, message))

    def add_unknown(self, where: str, name: str, known: Mapping[str, Any]) -> None:
        """Note a name that means nothing."""
        if len(self.found) < MAX_FAULTS:
            shown = name if len(name) <= MAX_LABEL else name[:MAX_LABEL] + "…"
            hint = did_you_mean(name[:MAX_LABEL], known) if self.are_few else ""
            self.add(where + shown, f"is not known here{hint}")

    def raise_any(self) -> None:
        """Stop with all of them, if there are any."""
        if self.found:
            code = self._codes.pop() if len(self._codes) == 1 else INVALID
            raise Problem(_STATUS.get(code, 400), code, self._detail(), faults=self.found)

    def _detail(self) -> str:
        first = f"{self.found[0].field}: {self.found[0].message}"
        more = len(self.found) - 1
        return f"{first} (and {more} more)" if more else first


def read_object(body: bytes) -> dict[str, Raw]:
    """A body that must be one JSON object."""
    if not body.strip():
        raise _bad_body(INVALID, "must be a JSON object, not empty")
    try:
        return _OBJECT.decode(body)
    except msgspec.ValidationError:
        raise _bad_body(INVALID, "must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad_body("malformed_json", f"is not JSON: {error}") from None
    except RecursionError:
        raise _bad_body("malformed_json", "is nested too deeply") from None


def read_optional_object(body: bytes) -> dict[str, Raw]:
    """A body that may be left out."""
    return read_object(body) if body.strip() else {}


def read_fields(
    given: Mapping[str, Raw], known: Fields, faults: Faults, where: str = ""
) -> dict[str, Any]:
    """The values of all fields that were sent; null is the same as not sent."""
    values: dict[str, Any] = {}
    for name, raw in given.items():
        found = known.get(name)
        if found is None:
            faults.add_unknown(where, name, known)
        elif bytes(raw) != _NULL:
            try:
                values[name] = found.read(raw)
            except (ValueError, RecursionError):
                faults.add(where + name, found.wants)
    for name in known.required:
        if name not in given or bytes(given[name]) == _NULL:
            faults.add(where + name, "is required")
    return values


def read_list(raw: Raw, most: int, name: str, faults: Faults) -> list[tuple[str, dict[str, Raw]]]:
    """Objects of a list with the name each has in a fault; those that are none are faults."""
    entries = _entries(raw)
    if entries is None or not 1 <= len(entries) <= most:
        count = "" if entries is None else f", not {len(entries)}"
        faults.add(name, f"must be a list of 1 to {most} objects{count}")
        return []
    objects = []
    for index, entry in enumerate(entries):
        where = f"{name}[{index}]"
        try:
            objects.append((f"{where}.", _OBJECT.decode(entry)))
        except (msgspec.ValidationError, RecursionError):
            faults.add(where, "must be an object of a reasonable depth")
    return objects


def _entries(raw: Raw) -> list[Raw] | None:
    try:
        return _LIST.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        return None


def milliseconds(moment: datetime) -> int:
    """Milliseconds since the epoch."""
    return (moment - _EPOCH) // _MILLISECOND


def unknown_name(what: str, name: str, known: Mapping[str, Any], suggest: bool = True) -> str:
    """`no job type "x" is configured (did you mean "y"?)`; finding out takes a while."""
    hint = did_you_mean(name[:MAX_LABEL], known) if suggest else ""
    return f"no {what} {quoted(name)} is configured{hint or _what_there_is(known)}"


def _what_there_is(known: Mapping[str, Any]) -> str:
    names = ", ".join(list(known)[:FEW_NAMES])
    return f": there are {names}{', …' if len(known) > FEW_NAMES else ''}" if known else ""


def _bad_body(code: str, message: str) -> Problem:
    return Problem(400, code, f"The body {message}.", faults=[FieldFault("body", message)])
