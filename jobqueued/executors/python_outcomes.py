"""How the answer or the end of a Python child becomes the outcome of an attempt. Pure functions."""

from __future__ import annotations

import re

from jobqueued.executors.exits import STOPPED, Exit, ending_text, last_lines, stopped_text
from jobqueued.executors.interface import Task
from jobqueued.executors.python_child import Answer
from jobqueued.model.job import MAX_ERROR
from jobqueued.model.outcome import Outcome, OutcomeKind

ENDING_SIZE = 4096
_CRASH_PLACE = re.compile(rb'most recent call first\):\n +File "([^"\n]+)", line (\d+) in (\S+)')


def outcome_of_answer(answer: Answer) -> Outcome:
    """What an attempt came to whose function ended."""
    ending = answer.ending
    return Outcome(
        kind=ending.kind,
        error=None if ending.error is None else ending.error[:MAX_ERROR],
        result=answer.result or None,
        max_rss_bytes=ending.max_rss_bytes,
        cpu_ms=ending.cpu_ms,
        retry_after_ms=ending.retry_after_ms,
    )


def outcome_of_end(ended: Exit, task: Task, memory: int | None) -> Outcome:
    """What an attempt came to whose process ended."""
    stop = task.stop.reason
    kind = OutcomeKind.CRASHED if stop is None else STOPPED[stop]
    what = ending_text(ended, memory, hint=stop is None)
    if stop is not None:
        what = f"{stopped_text(kind, task.job_type.timeout)} ({what})"
    elif ended.signal is None:
        what = f"{what} before the function returned"
    said = _last_words(task.output.ending(ENDING_SIZE))
    return Outcome(
        kind=kind,
        error=(f"{what}: {said}" if said else what)[:MAX_ERROR],
        exit_code=ended.code,
        max_rss_bytes=ended.max_rss_bytes,
    )


def _last_words(output: bytes) -> str:
    """Where the interpreter says that it crashed, else the last line that was written."""
    places = _CRASH_PLACE.findall(output)
    if not places:
        return last_lines(output).rpartition("\n")[2]
    file, line, function = (part.decode(errors="replace") for part in places[-1])
    return f"in {function} ({file.rpartition('/')[2]}:{line})"
