"""Times, durations and sizes in words; text made safe for a terminal."""

from __future__ import annotations

import os
from datetime import datetime

import click

_LARGEST_FIRST = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def plain(text: str) -> str:
    """The text on one line, without the control characters that could steer a terminal."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def wants_colour() -> bool:
    """Whether a terminal would be shown colour."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, colour: str) -> str:
    """The text in a colour, which `click.echo` leaves out where there is no terminal."""
    return click.style(text, fg=colour) if wants_colour() else text


def span(seconds: float) -> str:
    """A duration in its two largest units: `850ms`, `4.2s`, `3m 20s`, `5d 2h`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    left = int(seconds)
    parts: list[str] = []
    for unit, length in _LARGEST_FIRST:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0"))


def many(number: int, word: str) -> str:
    """A number of things: `1 job`, `1,200 jobs`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def size(amount: int) -> str:
    """Bytes in the largest unit that leaves a whole part: `1.5 MiB`."""
    number = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def milliseconds(moment: str) -> int:
    """An RFC 3339 time as milliseconds since the epoch."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def distance(moment: str, now: int) -> str:
    """How far a time is from now: `3m 20s ago`, `in 2h`."""
    seconds = (now - milliseconds(moment)) / 1000
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
