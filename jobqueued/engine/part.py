"""The one loop: do what is due, sleep until the next moment or a wake-up."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import suppress

from jobqueued import clock
from jobqueued.model.errors import DiskFull, StoreError, StoreUnavailable

log = logging.getLogger("jobqueued.engine")

_SLICE_SECONDS = 10.0
"""The longest sleep before the wall clock is looked at again: somebody may have set it."""
_STEP_SECONDS = 1.0
"""By which the wall clock must have moved against the other to have been set."""
_AFTER_ERROR_MS = 1_000


class Part(ABC):
    """A running part of the engine."""

    name = "part"

    def __init__(self) -> None:
        self.errors = 0
        self.busy_since: float | None = None
        """Since when the present round runs, for the watchdog."""
        self._due: int | None = 0
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def run_once(self) -> int | None:
        """Do what is due; when to come back (milliseconds since the epoch), or None."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name=self.name)

    def wake(self) -> None:
        """Come back now."""
        self._due = 0
        self._woken.set()

    def wake_at(self, moment: int) -> None:
        """Come back at `moment` at the latest."""
        if self._due is None or moment < self._due:
            self._due = moment
            self._woken.set()

    async def stop(self) -> None:
        """End after the present round; a round is never cut off half-way."""
        self._stopping = True
        self._woken.set()
        if self._task is not None:
            await self._task

    async def _loop(self) -> None:
        while not self._stopping:
            self._due = None
            self.busy_since = clock.monotonic()
            following = await self.guard(self.run_once())
            self.busy_since = None
            if following is not None:
                self.wake_at(following)
            await self._sleep()

    async def guard(self, work: Awaitable[int | None]) -> int | None:
        """Do a piece of work; what goes wrong with it is counted, and tried again later."""
        try:
            return await work
        except StoreUnavailable:
            self._stopping = True
            self._woken.set()
            return None
        except DiskFull:
            pass
        except StoreError as error:
            self.errors += 1
            log.error("%s failed, it tries again in a second: %s", self.name, error)
        except Exception:
            self.errors += 1
            log.exception("%s failed; it tries again in a second", self.name)
        return clock.now() + _AFTER_ERROR_MS

    async def _sleep(self) -> None:
        """Until it is time, or until somebody set the clock: what is due is another matter then."""
        began = _wall_ahead()
        while not self._stopping:
            self._woken.clear()
            wait = None if self._due is None else (self._due - clock.now()) / 1000
            if wait is None:
                await self._woken.wait()
                continue
            if wait <= 0 or abs(_wall_ahead() - began) > _STEP_SECONDS:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait, _SLICE_SECONDS)):
                    await self._woken.wait()


def _wall_ahead() -> float:
    """Seconds by which the wall clock is ahead of the one that nobody can set."""
    return clock.now() / 1000 - clock.monotonic()
