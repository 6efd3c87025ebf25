"""What clients asked for and were told, and which faults there were: the history of one run."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

CLOCK_TOLERANCE = 0.05
"""Seconds between the setting of a clock and the note of it."""


class Moment(NamedTuple):
    """A point in time on both clocks, in seconds; the first is the same for all processes."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.time())


class Answer(StrEnum):
    """What a client knows after a call. Only a 4xx says that nothing was done."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Wanted:
    """One job as a client asked for it."""

    number: str
    """Unique within the run, and in the payload: it tells whose job a row is."""
    type: str
    payload: dict[str, Any]
    key: str | None = None
    delay: float = 0.0
    expires: float | None = None
    """Seconds after the submission."""
    priority: int | None = None
    max_retries: int | None = None
    line: str | None = None
    """What it shares with others, of which only so many may run: its `key`."""

    def document(self) -> dict[str, Any]:
        """The body of the submission."""
        fields = {
            "type": self.type,
            "payload": self.payload,
            "idempotency_key": self.key,
            "delay_seconds": self.delay or None,
            "expires_in_seconds": self.expires,
            "priority": self.priority,
            "max_retries": self.max_retries,
            "key": self.line,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class Submission:
    """One call that submits jobs: all of them, or none."""

    wanted: list[Wanted]
    invoked: Moment
    answer: Answer = Answer.UNKNOWN
    answered: Moment | None = None
    """When the client had the answer, or gave up."""
    status: int | None = None
    ids: list[str] = field(default_factory=list)
    """In the order of `wanted`, when the answer was ok."""


@dataclass(slots=True)
class Cancellation:
    """One call that cancels a job."""

    job_id: str
    invoked: Moment
    answer: Answer = Answer.UNKNOWN
    answered: Moment | None = None
    job_status: str | None = None
    """The status of the job in the answer."""
    status: int | None = None


@dataclass(slots=True)
class Sighting:
    """A job as the daemon showed it."""

    job_id: str
    status: str
    attempt: int
    at: Moment


@dataclass(slots=True)
class Settlement:
    """An outcome that a client reported under a lease, and what the daemon said to it."""

    job_id: str
    attempt: int
    outcome: str
    answer: str
    """`ok`, `stale`, or `unknown`"""
    at: Moment


@dataclass(slots=True)
class Pause:
    """A type that an operator paused: from when on it was so for certain, and how long."""

    type: str
    acknowledged: Moment
    resumed: Moment | None = None
    """When it was first tried to resume it."""


@dataclass(slots=True)
class OpenBreaker:
    """A breaker that was open from one date to another, in seconds by the daemon's clock."""

    type: str
    since: float
    last_seen: float


@dataclass(slots=True)
class Line:
    """The unfinished jobs of one key, as they were in the file after a kill."""

    type: str
    key: str | None
    running: int
    held_back: list[bool]
    """Of those that wait, in the order in which they are to go."""


@dataclass(slots=True)
class Injected:
    """A fault. Those that cost running attempts say so: such attempts may end as lost."""

    name: str
    began: Moment
    ended: Moment
    pid: int | None = None
    """The process it happened to, where it was one."""

    @property
    def is_pause(self) -> bool:
        """Whether a process stood still, and went on when the fault ended."""
        return self.name.startswith("pause")

    @property
    def aftermath(self) -> float:
        """For how many seconds afterwards it still shows in attempts that begin.

        What a remote worker asked for before the daemon stood still, it gets when the lease that
        it counts from its question is over, and gives back.
        """
        return 1.0 if self.name == "pause of the daemon" else 0.0


@dataclass(slots=True)
class History:
    """All of one run."""

    submissions: list[Submission] = field(default_factory=list)
    cancellations: list[Cancellation] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    breakers: list[OpenBreaker] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    work: list[Injected] = field(default_factory=list)
    """Which faults of the list were being done, for whoever has to understand a failure."""
    clock: list[tuple[Moment, float]] = field(default_factory=list)
    """When the daemon's wall clock was set, and how many seconds it went ahead from then on."""
    began: Moment = field(default_factory=Moment.now)
    excused: dict[str, str] = field(default_factory=dict)
    """Rules that a fault of this run makes meaningless, and why."""

    def injected(self, name: str, pid: int | None = None) -> Injected:
        """Note a fault that happens now; set `ended` when it lasts longer."""
        now = Moment.now()
        self.faults.append(Injected(name, now, now, pid))
        return self.faults[-1]

    def at_work(self, name: str) -> Injected:
        """Note that a fault of the list is begun; set `ended` when it is done."""
        now = Moment.now()
        self.work.append(Injected(name, now, now))
        return self.work[-1]

    def clock_set(self, ahead: float) -> None:
        """Note that the daemon's wall clock now goes ahead of the real one by so many seconds."""
        self.clock.append((Moment.now(), ahead))

    def real_time(self, date: float) -> float:
        """When it really was that the daemon's wall clock showed this date."""
        ends = [moment.wall for moment, _ in self.clock] + [math.inf]
        begins = [self.began.wall, *ends[:-1]]
        for begin, end, ahead in zip(begins, ends, self._settings(), strict=True):
            if begin - CLOCK_TOLERANCE <= date - ahead <= end + CLOCK_TOLERANCE:
                return date - ahead
        return date

    def _settings(self) -> list[float]:
        return [0.0, *(ahead for _, ahead in self.clock)]

    def excuse(self, rule: str, why: str) -> None:
        """Do not hold this run to a rule."""
        self.excused[rule] = why

    def wanted(self) -> Iterator[tuple[Submission, Wanted, str | None]]:
        """Every job that was asked for, with its id where the answer told it."""
        for submission in self.submissions:
            for place, wanted in enumerate(submission.wanted):
                yield submission, wanted, submission.ids[place] if submission.ids else None

    def acknowledged(self) -> dict[str, Wanted]:
        """By id, every job that was promised."""
        return {job_id: wanted for _, wanted, job_id in self.wanted() if job_id is not None}

    def save(self, path: Path) -> None:
        """Write all of it down, for reading after a failure."""
        path.write_text(json.dumps(asdict(self), indent=1))
