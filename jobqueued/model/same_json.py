"""Whether two JSON texts mean the same value."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any


class _Immense(str):
    """A number whose exponent is beyond any arithmetic; equal when written alike."""


def same_json(first: bytes, second: bytes) -> bool:
    """Compare by value: key order, white space and `1.0` against `1` do not matter.

    A text that is not JSON, because it was damaged, is the same as itself alone.
    """
    try:
        return first == second or _same(_parse(first), _parse(second))
    except ValueError:
        return False


def _parse(text: bytes) -> Any:
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> Decimal | _Immense:
    try:
        return Decimal(text)
    except InvalidOperation:
        return _Immense(text)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    # True == Decimal(1) in Python, never in JSON.
    return type(first) is type(second) and bool(first == second)
