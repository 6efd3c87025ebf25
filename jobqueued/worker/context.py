"""What a handler with a second argument is told about its job."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobqueued import clock
from jobqueued.worker.held import Held

MAX_MESSAGE = 1000
LONGEST_LEASE = 3600.0


class Stopped(BaseException):
    """Raised by `progress` and `extend` in a handler that has to stop."""


class Context:
    """One attempt, seen from its handler; every method may be called from any thread."""

    def __init__(self, held: Held, payload: Any, url: str, tell: Callable[[], object]) -> None:
        self._held = held
        self._tell = tell
        self.payload = payload
        self.url = url

    @property
    def id(self) -> str:
        """The id of the job: the natural key of whatever must not be done twice."""
        return self._held.job.id

    @property
    def type(self) -> str:
        return self._held.job.type

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._held.job.attempt

    @property
    def created_at(self) -> datetime:
        return self._held.job.created_at

    @property
    def deadline(self) -> datetime:
        """When the attempt times out, on the daemon's clock."""
        return self._held.job.lease.deadline

    @property
    def seconds_left(self) -> float:
        """How long the attempt may still run."""
        return self.deadline.timestamp() + self._held.skew - clock.monotonic()

    @property
    def correlation_id(self) -> str | None:
        return self._held.job.correlation_id

    @property
    def key(self) -> str | None:
        return self._held.job.key

    @property
    def max_retries(self) -> int:
        return self._held.job.max_retries

    @property
    def priority(self) -> int:
        return self._held.job.priority

    @property
    def token(self) -> str:
        """The lease token, for `jobqueued progress` and the like."""
        return self._held.token

    @property
    def payload_json(self) -> bytes:
        """The payload, byte for byte as it was submitted."""
        return bytes(self._held.job.payload_json)

    @property
    def log(self) -> logging.Logger:
        """A logger of this program; its name ends in the type."""
        return logging.getLogger(f"jobqueued.job.{self.type}")

    @property
    def stopping(self) -> bool:
        """Whether the handler has to stop: cancelled, lost, or the worker ends."""
        return self._held.stopped is not None

    def progress(self, percent: float, message: str | None = None) -> None:
        """Say how far the job is, from 0 to 100."""
        if not 0 <= percent <= 100:
            raise ValueError(f"progress is a number from 0 to 100, not {percent!r}")
        text = None if message is None else str(message)[:MAX_MESSAGE]
        self._say(progress=(float(percent), text))

    def extend(self, seconds: float) -> None:
        """Ask for a lease of so many seconds from now, where no heartbeat may get through."""
        if not 0 < seconds < 1e9:
            raise ValueError(f"extend takes a number of seconds, not {seconds!r}")
        self._say(extend=min(float(seconds), LONGEST_LEASE))

    def _say(self, **news: Any) -> None:
        if self._held.stopped is not None:
            raise Stopped(str(self._held.stopped))
        for name, value in news.items():
            setattr(self._held, name, value)
        self._tell()
