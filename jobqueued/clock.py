"""The only source of time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> int:
    """Wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds that only ever grow; for waiting, never for dates."""
    return time.monotonic()


def rfc3339(milliseconds: int) -> str:
    """`2026-01-31T12:00:00.000Z`."""
    seconds, fraction = divmod(milliseconds, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:03d}Z"
