"""JSON of the API taken apart and put together without touching a digit of anybody's payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jobqueued.model.job import TERMINAL

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parts(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a document, each as it was written."""
    return _PARTS.decode(body)


def join(fields: Mapping[str, object]) -> bytes:
    """A document of such fields."""
    return msgspec.json.encode(fields)


def items(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The elements of a list, each as it was written."""
    return msgspec.json.decode(raw, type=list[msgspec.Raw])


def value(raw: msgspec.Raw) -> Any:
    """What a field says."""
    return msgspec.json.decode(raw)


def one_line(raw: msgspec.Raw | bytes) -> str:
    """A JSON value on one line."""
    return msgspec.json.format(bytes(raw), indent=0).decode()


def indented(raw: msgspec.Raw) -> str:
    """A JSON value over several lines."""
    return msgspec.json.format(bytes(raw), indent=2).decode()


def is_terminal(status: str) -> bool:
    """Whether a job of this status is over."""
    return status in TERMINAL
