"""Waiting for the end of a job, through slow answers and restarts of the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable

from jobqueued.cli.documents import is_terminal
from jobqueued.client.daemon import Answer, Daemon, job_path
from jobqueued.client.errors import ClientError, Unreachable
from jobqueued.client.patience import Patience

LONGEST_ASK = 60.0
"""Seconds the daemon holds one answer back at most."""
PAUSE = 0.5
PATIENCE = 30.0
"""Seconds a daemon that answered before may be away, to be restarted."""


def wait_for(daemon: Daemon, job_id: str, seconds: float | None) -> Answer:
    """The job when it is over, or as it is when the time is up; None waits for ever."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        try:
            answer = _ask(daemon, job_id, _left(deadline))
            if is_terminal(answer.document()["status"]) or _left(deadline) <= 0:
                return answer
        except Unreachable:
            if _is_gone(daemon) or _left(deadline) <= 0:
                raise
        # A daemon that shuts down answers at once; it must not be asked in a tight loop.
        if time.monotonic() - asked < PAUSE:
            time.sleep(min(PAUSE, _left(deadline)))


def ask_patiently(daemon: Daemon, ask: Callable[[], Answer]) -> Answer:
    """An answer that may be asked for twice, from a daemon that restarts meanwhile or is busy."""
    patience = Patience(PATIENCE, repeatable=True)
    while True:
        try:
            return ask()
        except ClientError as error:
            if daemon.reached_at is None:
                raise
            time.sleep(patience.pause_after(error))


def _is_gone(daemon: Daemon) -> bool:
    return daemon.reached_at is None or time.monotonic() - daemon.reached_at > PATIENCE


def _ask(daemon: Daemon, job_id: str, seconds: float) -> Answer:
    return daemon.get(job_path(job_id), [("wait", f"{seconds:.3f}")], wait=seconds)


def _left(deadline: float | None) -> float:
    if deadline is None:
        return LONGEST_ASK
    return min(max(deadline - time.monotonic(), 0.0), LONGEST_ASK)
