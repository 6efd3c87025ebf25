"""What an executor is given, and what it must offer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed
from jobqueued.model.job_type import JobType
from jobqueued.model.outcome import Outcome


class StopReason(StrEnum):
    """Why a running handler is told to stop."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class Stop:
    """A request to a running handler to end: politely first, by force when `killed` is set."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.asked = asyncio.Event()
        self.killed = asyncio.Event()

    def ask(self, reason: StopReason) -> None:
        """Ask once; the first reason stays."""
        if self.reason is None:
            self.reason = reason
            self.asked.set()

    def kill(self, reason: StopReason) -> None:
        """Skip what is left of the grace period."""
        self.ask(reason)
        self.killed.set()


@dataclass(slots=True)
class Task:
    """One attempt as an executor sees it."""

    claimed: Claimed
    job_type: JobType
    deadline: int
    url: str
    output: Output
    stop: Stop = field(default_factory=Stop)


class Executor(Protocol):
    """Runs the handlers of one kind."""

    async def run(self, task: Task) -> Outcome:
        """Run to the end, or until stopped; never raise for what a handler did."""

    async def close(self) -> None:
        """Give back every process and descriptor."""
