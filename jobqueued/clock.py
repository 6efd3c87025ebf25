"""The only source of time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache


def now() -> int:
    """Wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds that only ever grow; for waiting, never for dates."""
    return time.monotonic()


def rfc3339(milliseconds: int) -> str:
    """`2026-01-31T12:00:00.000Z`."""
    seconds, fraction = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{fraction:03d}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
