"""What an attempt came to, as a value."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class OutcomeKind(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    FATAL = "fatal"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LOST = "lost"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended and what it used."""

    kind: OutcomeKind
    error: str | None = None
    result: bytes | None = None
    exit_code: int | None = None
    http_status: int | None = None
    max_rss_bytes: int | None = None
    cpu_ms: int | None = None
    retry_after_ms: int | None = None
    log: bytes | None = None


DAMAGED_PAYLOAD = Outcome(
    kind=OutcomeKind.FATAL, error="the payload on disk is damaged (its checksum does not match)"
)
