"""What an executor is given, and what it must offer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed
from jobqueued.model.job_type import Handler, JobType
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
        self.listener: Callable[[], None] | None = None
        """Called when asked, for an executor to which a waiting task per attempt is too dear."""

    def ask(self, reason: StopReason) -> None:
        """Ask once; the first reason stays."""
        if self.reason is None:
            self.reason = reason
            self.asked.set()
            if self.listener is not None:
                self.listener()

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


class Executor(ABC):
    """Runs the handlers of one kind."""

    @abstractmethod
    async def run(self, task: Task) -> Outcome:
        """Run to the end, or until stopped; never raise for what a handler did."""

    @abstractmethod
    async def close(self) -> None:
        """Give back every process and descriptor."""

    def resting_until(self, handler: Handler) -> int | None:
        """Until when jobs of this handler are better not begun; None when they can be."""
        return None

    def recycle(self) -> None:
        """Load anew whatever is kept between jobs."""
        return None
