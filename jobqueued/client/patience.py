"""When a call is made again: the same rules for every kind of client."""

from __future__ import annotations

import random
import time

from jobqueued.client.errors import ClientError, NotConnected, Problem, Unreachable

PATIENCE = 30.0
"""Seconds a daemon may be away or full, to be restarted or to catch up."""
LEAST_ASK = 0.5
"""Seconds between two questions for the same job."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
UNSURE = "store_unavailable"
"""The code of the one refusal after which the request may still have taken effect."""


class Backoff:
    """Pauses that grow from a moment to seconds."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, error: ClientError) -> float:
        """How long to pause now; never less than the daemon asks for."""
        grown = min(FIRST_PAUSE * 2.0 ** min(self._failures, 16), LONGEST_PAUSE)
        self._failures += 1
        return max(grown * random.uniform(0.5, 1.0), retry_after(error))

    def reset(self) -> None:
        """It worked: begin from the start next time."""
        self._failures = 0


class Patience:
    """Says how long to pause before a call is made again, or raises what stopped it."""

    def __init__(self, seconds: float, repeatable: bool) -> None:
        self._deadline = time.monotonic() + seconds
        self._repeatable = repeatable
        self._backoff = Backoff()

    def pause_after(self, error: ClientError) -> float:
        """Seconds to pause; raises the error when it makes no sense to try again."""
        pause = self._backoff.after(error)
        if not may_pass(error, self._repeatable) or time.monotonic() + pause > self._deadline:
            raise error
        return pause


def may_pass(error: ClientError, repeatable: bool) -> bool:
    """Whether the same call can succeed later without being done twice."""
    if isinstance(error, Problem):
        sure = repeatable or error.code != UNSURE
        return error.status == 429 or (error.status == 503 and sure)
    if isinstance(error, NotConnected):
        return True
    return repeatable and isinstance(error, Unreachable)


def retry_after(error: ClientError) -> float:
    """The seconds the daemon asks to wait, or none."""
    text = error.retry_after if isinstance(error, Problem) else None
    return float(text) if text is not None and text.isascii() and text.isdigit() else 0.0
