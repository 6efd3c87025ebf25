"""What a check-up found: in order, worth a look, or to be repaired."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One line of a check-up; `fix` says what to do about it."""

    level: str
    subject: str
    text: str
    fix: str = ""
    exit_code: int = 0


def fine(subject: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding("ok", subject, text)


def caution(subject: str, text: str, fix: str) -> Finding:
    """Worth a look, but it works."""
    return Finding("warning", subject, text, fix)


def fault(subject: str, text: str, fix: str, exit_code: int = 1) -> Finding:
    """It does not work like this."""
    return Finding("fault", subject, text, fix, exit_code)
