"""A job type as configured: limits, retries and the handler that runs it."""

from __future__ import annotations

import msgspec

from jobqueued.model.retry import Backoff


class CommandHandler(msgspec.Struct, frozen=True, kw_only=True):
    """A program started once per attempt. Durations are milliseconds, sizes bytes."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    user: str | None = None
    kill_grace: int = 5_000
    fatal_exit_codes: frozenset[int] = frozenset({64, 65})
    result_from_stdout: bool = False
    memory: int | None = None

    @property
    def kind(self) -> str:
        return "command"


class JobType(msgspec.Struct, frozen=True, kw_only=True):
    """One `[types.NAME]`, with `[defaults]` filled in. Durations are milliseconds."""

    name: str
    handler: CommandHandler
    pool: str = "default"
    timeout: int = 300_000
    max_retries: int = 5
    priority: int = 5
    backoff: Backoff = Backoff()
    lease: int = 60_000
    max_running: int | None = None
