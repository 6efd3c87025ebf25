"""The kind of setting that is a JSON Schema: the path of a file, or a table."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import msgspec

from jobqueued.config.faults import Invalid, Keys, show
from jobqueued.config.kinds import FilePath, unlike


class PayloadSchema(msgspec.Struct, frozen=True):
    """A JSON Schema: the file that has it, or the schema as a table, which becomes its text."""

    @property
    def accepts(self) -> str:
        return "the path of a JSON Schema (2020-12), or the schema itself as a table"

    def read(self, value: object, base: Path) -> Path | str:
        if isinstance(value, str):
            return FilePath("a JSON Schema").read(value, base)
        if not isinstance(value, dict):
            raise unlike(self, value)
        try:
            faults = _faults_of(value, ())
        except RecursionError:
            raise Invalid(((), "is nested too deeply")) from None
        if faults:
            raise Invalid(*faults)
        return json.dumps(value, ensure_ascii=False)


def _faults_of(value: Any, keys: Keys) -> list[tuple[Keys, str]]:
    """TOML has values that JSON has not."""
    if isinstance(value, dict):
        return [fault for key, one in value.items() for fault in _faults_of(one, (*keys, key))]
    if isinstance(value, list):
        return [fault for i, one in enumerate(value) for fault in _faults_of(one, (*keys, i))]
    is_time = isinstance(value, date | datetime | time)
    if is_time or (isinstance(value, float) and not -float("inf") < value < float("inf")):
        return [(keys, f"{show(value)} is not possible in JSON")]
    return []
