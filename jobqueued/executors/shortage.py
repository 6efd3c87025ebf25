"""When this machine has no process, descriptor or memory to give: nobody's failure."""

from __future__ import annotations

import logging

from jobqueued import clock
from jobqueued.executors.spawn import SHORTAGES
from jobqueued.model.outcome import Outcome, OutcomeKind

REST_SECONDS = 1.0
log = logging.getLogger("jobqueued.executors")


class Shortage:
    """Puts off what could not be started, and lets no other job begin for a moment."""

    def __init__(self) -> None:
        self._until = 0.0

    def judge(self, error: OSError | MemoryError) -> Outcome:
        """What becomes of an attempt for which not even the beginnings could be made."""
        text = f"cannot start a process: {str(error) or 'out of memory'}"
        if is_shortage(error):
            return self.outcome(text)
        return Outcome(kind=OutcomeKind.FAILED, error=text)

    def outcome(self, error: str) -> Outcome:
        """What becomes of an attempt that never began."""
        if self.resting_until() is None:
            log.warning("jobs are put off: %s", error)
        self._until = clock.monotonic() + REST_SECONDS
        milliseconds = int(REST_SECONDS * 1000)
        return Outcome(kind=OutcomeKind.INTERRUPTED, error=error, retry_after_ms=milliseconds)

    def resting_until(self) -> int | None:
        """Until when it is better not to try again."""
        left = self._until - clock.monotonic()
        return clock.now() + int(left * 1000) if left > 0 else None


def is_shortage(error: BaseException) -> bool:
    """Whether it is the machine or a limit of the daemon, and not the handler."""
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in SHORTAGES
