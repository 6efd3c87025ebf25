"""A job type as configured: limits, retries and the handler that runs it."""

from __future__ import annotations

from typing import Any

import msgspec

from jobqueued.model.control import Breaker
from jobqueued.model.rate import Rate
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


class HttpHandler(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook: the payload is posted to `url`, or to the address found at `url_from`.

    `url_from` is the way to a field of the payload, as keys from the outside in. `secrets` holds
    the signing keys themselves, first the one in use; `allowed_hosts` is needed with `url_from`.
    """

    url: str | None = None
    url_from: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allow_private: bool = False
    secrets: tuple[bytes, ...] = ()
    headers: dict[str, str] = {}
    connect_timeout: int = 10_000
    ca_file: str | None = None

    @property
    def kind(self) -> str:
        return "http"

    def __repr__(self) -> str:
        """Nothing that could be a secret: addresses and headers may hold one."""
        return "HttpHandler()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class PythonHandler(msgspec.Struct, frozen=True, kw_only=True):
    """A function called in a long-lived child process of `interpreter`."""

    module: str
    function: str
    interpreter: str | None = None
    python_path: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    user: str | None = None
    kill_grace: int = 5_000
    memory: int | None = None
    max_jobs_per_child: int = 10_000

    @property
    def kind(self) -> str:
        return "python"


class RemoteHandler(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs are claimed by workers over HTTP."""

    @property
    def kind(self) -> str:
        return "remote"


Handler = CommandHandler | HttpHandler | PythonHandler | RemoteHandler


class JobType(msgspec.Struct, frozen=True, kw_only=True):
    """One `[types.NAME]`, with `[defaults]` filled in. Durations are milliseconds.

    `payload_schema` is the text of a JSON Schema, whether it came from a file or a table.
    """

    name: str
    handler: Handler
    pool: str = "default"
    timeout: int = 300_000
    max_retries: int = 5
    priority: int = 5
    backoff: Backoff = Backoff()
    lease: int = 60_000
    max_running: int | None = None
    rate: Rate | None = None
    breaker: Breaker | None = Breaker()
    max_running_per_key: int | None = None
    confirm_replay: bool = False
    payload_schema: str | None = None
