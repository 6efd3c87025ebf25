"""What the handlers noted, one value per execution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.fault.history import Moment


@dataclass(slots=True)
class Execution:
    """One attempt as its handler saw it."""

    job_id: str
    attempt: int
    kind: str
    pid: int
    started: Moment
    ended: Moment | None = None
    """None when it was killed."""
    how: str | None = None
    """`end`, `fail` or `stopped`"""
    overlapped: bool = False
    """Whether another execution of the job was still alive when it began."""


def prepare_notes(place: Path) -> None:
    """What the handlers need in the directory of a run."""
    (place / "locks").mkdir()
    (place / "executions").touch()


def read_executions(place: Path) -> list[Execution]:
    """Everything on record so far, in the order of the starts."""
    under_way: dict[tuple[str, int, int], Execution] = {}
    overlapped: set[tuple[str, int, int]] = set()
    found: list[Execution] = []
    for line in (place / "executions").read_text().splitlines():
        word, job_id, attempt, kind, pid, monotonic, wall = line.split()
        moment = Moment(float(monotonic), float(wall))
        name = (job_id, int(attempt), int(pid))
        if word == "overlap":
            overlapped.add(name)
        elif word == "start":
            found.append(Execution(job_id, int(attempt), kind, int(pid), moment))
            found[-1].overlapped = name in overlapped
            under_way[name] = found[-1]
        else:
            # Stopped before it could say that it had started.
            execution = under_way.pop(name, None)
            if execution is not None:
                execution.ended, execution.how = moment, word
    return found
