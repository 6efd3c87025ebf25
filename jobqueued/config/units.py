"""Durations, sizes and rates as people write them: one number, one unit."""

from __future__ import annotations

import re
from fractions import Fraction

from jobqueued.model.rate import Rate

DURATION_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

RATE_UNITS = {"s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z]+)")
_LOOSE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]+)\.?\s*")

_RATE = re.compile(r"([0-9]{1,9})/([a-z]+)")
_LOOSE_RATE = re.compile(r"\s*([0-9]{1,9})\s*(?:/|per)\s*([A-Za-z]+)\s*")

_DURATION_WORDS = {
    "ms": "ms msec msecs millis millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
}
_SIZE_WORDS = {
    "B": "b byte bytes",
    "KiB": "k kb ki kib",
    "MiB": "m mb mi mib",
    "GiB": "g gb gi gib",
    "TiB": "t tb ti tib",
}


def parse_duration(text: str) -> int:
    """`"1.5s"` as milliseconds; the ValueError says what is accepted."""
    return _parse(text, DURATION_UNITS, _DURATION_WORDS, "a duration", "30s", "a millisecond")


def parse_size(text: str) -> int:
    """`"64KiB"` as bytes; the ValueError says what is accepted."""
    return _parse(text, SIZE_UNITS, _SIZE_WORDS, "a size", "64KiB", "a byte")


def parse_rate(text: str) -> Rate:
    """`"100/min"` as a rate; the ValueError says what is accepted."""
    match = _RATE.fullmatch(text)
    if match is None or match[2] not in RATE_UNITS or int(match[1]) == 0:
        units = ", ".join(RATE_UNITS)
        forms = f'write a whole number from 1, "/" and one of {units}, such as "100/min"'
        raise ValueError(f"is not a rate: {forms}{_rate_suggestion(text)}")
    return Rate(int(match[1]), RATE_UNITS[match[2]])


def format_rate(rate: Rate) -> str:
    """A rate as it is written in the configuration."""
    unit = next(unit for unit, length in RATE_UNITS.items() if length == rate.per)
    return f"{rate.count}/{unit}"


def format_duration(milliseconds: int) -> str:
    """The shortest exact way to write a duration: `90000` is `90s`."""
    return _format(milliseconds, DURATION_UNITS, "s")


def format_size(size: int) -> str:
    """The shortest exact way to write a size: `65536` is `64KiB`."""
    return _format(size, SIZE_UNITS, "B")


def _parse(
    text: str, units: dict[str, int], words: dict[str, str], noun: str, sample: str, finest: str
) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        forms = f'write one number and one unit of {", ".join(units)}, such as "{sample}"'
        raise ValueError(f"is not {noun}: {forms}{_suggestion(text, words)}")
    amount = Fraction(match[1]) * units[match[2]]
    if amount.denominator != 1:
        raise ValueError(f"is finer than {finest}: use a smaller unit or fewer decimals")
    return int(amount)


def _suggestion(text: str, words: dict[str, str]) -> str:
    match = _LOOSE.fullmatch(text)
    if match is None:
        return ""
    found = [unit for unit, names in words.items() if match[2].lower() in names.split()]
    return f' (did you mean "{match[1]}{found[0]}"?)' if found else ""


def _rate_suggestion(text: str) -> str:
    match = _LOOSE_RATE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        return ""
    for unit, length in RATE_UNITS.items():
        names = next(_DURATION_WORDS[u].split() for u, n in DURATION_UNITS.items() if n == length)
        if match[2].lower() in names:
            return f' (did you mean "{match[1]}/{unit}"?)'
    return ""


def _format(amount: int, units: dict[str, int], zero: str) -> str:
    if amount == 0:
        return f"0{zero}"
    name, factor = max(
        ((name, factor) for name, factor in units.items() if amount % factor == 0),
        key=lambda unit: unit[1],
    )
    return f"{amount // factor}{name}"
