"""The kinds of single values a setting can have: what each accepts and how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jobqueued.config.faults import Invalid, did_you_mean, quoted, show
from jobqueued.config.units import parse_duration, parse_rate, parse_size
from jobqueued.model.rate import Rate

NOT_EXPANDED = ': "~" is not expanded, write the whole path'


class Kind(Protocol):
    """How the values of a setting look."""

    @property
    def accepts(self) -> str:
        """In words, for messages and documentation: `a whole number from 0 to 9`."""

    def read(self, value: object, base: Path) -> Any:
        """The value as the program uses it; relative paths start at `base`. Raises Invalid."""


class Whole(msgspec.Struct, frozen=True):
    """A whole number within bounds."""

    least: int
    most: int

    @property
    def accepts(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def read(self, value: object, base: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise unlike(self, value, _unquoted(value, int))
        if not self.least <= value <= self.most:
            raise unlike(self, value)
        return value


class Number(msgspec.Struct, frozen=True):
    """A number within bounds, whole or not."""

    least: float
    most: float

    @property
    def accepts(self) -> str:
        return f"a number from {self.least} to {self.most}"

    def read(self, value: object, base: Path) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise unlike(self, value, _unquoted(value, float))
        # Written so that nan, which compares false with everything, is refused.
        if not self.least <= value <= self.most:
            raise unlike(self, value)
        return float(value)


class Duration(msgspec.Struct, frozen=True):
    """A duration such as `"30s"`; bounds are written the same way."""

    least: str
    most: str

    @property
    def accepts(self) -> str:
        return f"a duration from {self.least} to {self.most}"

    def read(self, value: object, base: Path) -> int:
        seconds = value if isinstance(value, int) and not isinstance(value, bool) else 30
        sample = f"{seconds}s" if 0 < seconds < 10**9 else "30s"
        return _quantity(self, value, sample, parse_duration)


class Size(msgspec.Struct, frozen=True):
    """A size such as `"64KiB"`; bounds are written the same way."""

    least: str
    most: str

    @property
    def accepts(self) -> str:
        return f"a size from {self.least} to {self.most}"

    def read(self, value: object, base: Path) -> int:
        return _quantity(self, value, "64KiB", parse_size)


class PerTime(msgspec.Struct, frozen=True):
    """A rate such as `"100/min"`; the highest is written the same way."""

    most: str

    @property
    def accepts(self) -> str:
        return f"a rate from 1/d to {self.most}"

    def read(self, value: object, base: Path) -> Rate:
        if not isinstance(value, str):
            hint = ': write it in quotes and with its unit, such as "100/min"'
            raise unlike(self, value, hint)
        try:
            rate, most = parse_rate(value), parse_rate(self.most)
        except ValueError as error:
            raise Invalid(((), f"{quoted(value)} {error}")) from None
        if rate.count * most.per > most.count * rate.per:
            raise unlike(self, value)
        return rate


class Switch(msgspec.Struct, frozen=True):
    """On or off."""

    @property
    def accepts(self) -> str:
        return "true or false"

    def read(self, value: object, base: Path) -> bool:
        if not isinstance(value, bool):
            hint = ": write it without quotes" if value in ("true", "false") else ""
            raise unlike(self, value, hint)
        return value


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def accepts(self) -> str:
        return " or ".join(f'"{word}"' for word in self.words)

    def read(self, value: object, base: Path) -> str:
        if not isinstance(value, str) or value not in self.words:
            hint = did_you_mean(value, self.words) if isinstance(value, str) else ""
            raise unlike(self, value, hint)
        return value


class Name(msgspec.Struct, frozen=True):
    """A name of something."""

    noun: str

    @property
    def accepts(self) -> str:
        return f"the name of {self.noun}"

    def read(self, value: object, base: Path) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            raise unlike(self, value)
        return value


class Program(msgspec.Struct, frozen=True):
    """A program, by name or path."""

    noun: str

    @property
    def accepts(self) -> str:
        return f"the name or path of {self.noun}"

    def read(self, value: object, base: Path) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise unlike(self, value)
        if value.startswith("~"):
            raise unlike(self, value, NOT_EXPANDED)
        return located(value, base)


class FilePath(msgspec.Struct, frozen=True):
    """A file or directory."""

    noun: str

    @property
    def accepts(self) -> str:
        return f"the path of {self.noun}"

    def read(self, value: object, base: Path) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise unlike(self, value)
        if value.startswith("~"):
            raise unlike(self, value, NOT_EXPANDED)
        return Path(os.path.abspath(base / value))


def unlike(kind: Kind, value: object, hint: str = "") -> Invalid:
    """The fault of a value that is not what its kind accepts."""
    return Invalid(((), f"must be {kind.accepts}, not {show(value)}{hint}"))


def located(program: str, base: Path) -> str:
    """A bare name stays and is looked up in PATH when it runs; a path starts at `base`."""
    return os.path.abspath(base / program) if "/" in program else program


def _unquoted(value: object, number: type[int] | type[float]) -> str:
    if not isinstance(value, str) or len(value) > 20:
        return ""
    try:
        number(value)
    except ValueError:
        return ""
    return ": write it without quotes"


def _quantity(
    kind: Duration | Size, value: object, sample: str, parse: Callable[[str], int]
) -> int:
    if not isinstance(value, str):
        raise unlike(kind, value, f': write it in quotes and with its unit, such as "{sample}"')
    try:
        amount = parse(value)
    except ValueError as error:
        raise Invalid(((), f"{quoted(value)} {error}")) from None
    if not parse(kind.least) <= amount <= parse(kind.most):
        raise unlike(kind, value)
    return amount
