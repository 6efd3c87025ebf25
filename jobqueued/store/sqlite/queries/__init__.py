"""The SQL, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

MOST_ROWS = 32
"""Rows one statement takes at most; each number of rows is a statement of its own to prepare."""


def _read() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in files(__package__).iterdir():
        if file.name.endswith(".sql"):
            for block in file.read_text().split("-- name: ")[1:]:
                name, statement = block.split("\n", 1)
                statements[name.strip()] = statement.strip()
    return statements


SQL = _read()
SQL["select_jobs_at"] = f"{SQL['select_jobs']} WHERE seq IN (VALUES (?))"


def run_many(
    execute: Callable[..., Any], name: str, rows: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Run a statement for many rows at once: each statement costs a change of thread."""
    found: list[tuple[Any, ...]] = []
    for place in range(0, len(rows), MOST_ROWS):
        some = rows[place : place + MOST_ROWS]
        values = [value for row in some for value in row]
        found += execute(_for_rows(name, len(some)), values).fetchall()
    return found


@cache
def _for_rows(name: str, size: int) -> str:
    """The statement with its only row of values repeated."""
    return re.sub(r"(?<=VALUES )\([?, ]+\)", lambda row: ", ".join([row[0]] * size), SQL[name])
