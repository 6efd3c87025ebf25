"""Faults in a configuration: gathered all, worded for people, one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from jobqueued.model.errors import ConfigError

Keys = tuple[str | int, ...]
"""The way to a value: names of tables and keys, and positions in lists."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN = 80


class Invalid(Exception):
    """A value that cannot be used; each fault is where inside the value, and what to do."""

    def __init__(self, *faults: tuple[Keys, str]) -> None:
        super().__init__(faults)
        self.faults = faults


class Faults:
    """Every fault found so far, in the order found."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, file: Path, message: str) -> None:
        """Note what is wrong with a whole file."""
        self.lines.append(f"{shown_path(file)}: {message}")

    def add_key(self, file: Path, keys: Keys, message: str) -> None:
        """Note what is wrong with one key."""
        self.add(file, f"{dotted(keys)}: {message}")

    def raise_any(self) -> None:
        """Stop with all of them, if there are any."""
        if self.lines:
            raise ConfigError("\n".join(self.lines))


def dotted(keys: Keys) -> str:
    """Keys as TOML writes them, quoted where they must be, and positions as `[0]`."""
    return "".join(map(_step, keys)).removeprefix(".")


def quoted(text: str, most: int = _SHOWN) -> str:
    """Text in quotes, on one line and of bounded length."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def show(value: object) -> str:
    """A value as the file has it, on one line and of bounded length."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    # Python refuses to print integers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return str(value)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)`, or nothing when no known word is near."""
    near = get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {quoted(near[0])}?)" if near else ""


def shown_path(path: Path) -> str:
    """A path as it is, or quoted where it would break the line."""
    return str(path) if str(path).isprintable() else json.dumps(str(path))


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _BARE_KEY.fullmatch(key) else f".{quoted(key)}"
