"""What every handler of these tests does: say that it starts, do as told, say how it ended.

Standard library only, and little of it: commands import this once per attempt.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Failed(Exception):
    """The payload wants this attempt to fail."""


class Notes:
    """The notes of the executions of one run, in one file that everybody appends to."""

    def __init__(self, place: str, kind: str) -> None:
        self._place = place
        self._kind = kind

    @contextmanager
    def execution(self, job_id: str, attempt: int) -> Iterator[None]:
        """Around the work for a job: alone with it, and on record from start to end."""
        lock = os.open(f"{self._place}/locks/{job_id}", os.O_RDWR | os.O_CREAT, 0o600)
        word = "stopped"
        try:
            self._hold(lock, job_id, attempt)
            self._note("start", job_id, attempt)
            yield
            word = "end"
        except Failed:
            word = "fail"
            raise
        finally:
            self._note(word, job_id, attempt)
            os.close(lock)

    def _hold(self, lock: int, job_id: str, attempt: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._note("overlap", job_id, attempt)

    def _note(self, word: str, job_id: str, attempt: int) -> None:
        """One line in one write: lines of several processes never mix."""
        moment = f"{time.monotonic():.6f} {time.time():.6f}"
        line = f"{word} {job_id} {attempt} {self._kind} {os.getpid()} {moment}\n"
        descriptor = os.open(f"{self._place}/executions", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def conclude(payload: Any, attempt: int) -> dict[str, object]:
    """Fail where the payload wants it; else the result."""
    if attempt <= payload["failures"]:
        raise Failed(f"attempt {attempt} is to fail")
    return {"number": payload["number"], "attempt": attempt}
