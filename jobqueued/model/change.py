"""What people do to a job, and how it stays on record."""

from __future__ import annotations

import msgspec

MAX_NOTE = 1000
"""Characters of a note."""


class Act(msgspec.Struct, frozen=True):
    """Who does something, when, and why."""

    actor: str
    at: int
    note: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An act on record; `attempt` is how many attempts there were by then.

    `payload_before` is the payload as it was, where the act changed it.
    """

    number: int
    at: int
    attempt: int
    actor: str
    action: str
    note: str | None
    payload_before: bytes | None


class Replay(msgspec.Struct, frozen=True):
    """A dead job that is to run again from `run_at` on, with another payload where one is given."""

    job_id: str
    run_at: int
    payload: bytes | None = None


class Found(msgspec.Struct, frozen=True):
    """What a replay found: the status, and the newer job that has the idempotency key by now."""

    status: str
    newer: str | None = None

    @property
    def replayed(self) -> bool:
        """Whether the job runs again."""
        return self.status == "dead" and self.newer is None


class BulkReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A wish to replay many dead jobs of a type, oldest first; `delay` is in milliseconds."""

    type: str
    limit: int
    after: str | None = None
    delay: int = 0
    pace_per_second: float | None = None
    confirm: bool = False
    dry_run: bool = False


class BulkReplayed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: which jobs run again, how many could not, and where to go on.

    `dead` is how many dead jobs of the type there were before.
    """

    ids: list[str]
    skipped: int
    dead: int
    confirm_needed: bool
    next_cursor: str | None
