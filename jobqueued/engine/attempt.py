"""One attempt from start to settled."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.engine.settle import Settler
from jobqueued.executors.interface import Executor, StopReason
from jobqueued.model.errors import StoreError
from jobqueued.model.outcome import DAMAGED_PAYLOAD, Outcome, OutcomeKind

log = logging.getLogger("jobqueued.engine")

_LAST = {OutcomeKind.COMPLETED, OutcomeKind.FATAL}


class Attempts:
    """Runs claimed jobs on the executor of their kind."""

    def __init__(self, shared: Shared, settler: Settler, executors: dict[str, Executor]) -> None:
        self._shared = shared
        self._settler = settler
        self._executors = executors

    async def settle(self, running: Running, outcome: Outcome) -> None:
        """Put the outcome on disk; the next job is claimed in the same commit."""
        shared, job_type = self._shared, running.claimed.type
        shared.running.ending[job_type] += 1
        shared.dispatcher.wake()
        try:
            await self._settler.settle([(running.claimed, outcome)])
        except StoreError as error:
            log.error("outcome of %s not written: %s", running.claimed.lease.job_id, error)
        finally:
            shared.running.ending[job_type] -= 1
            shared.running.remove(running)
            shared.changes.notify(running.claimed.lease.job_id)

    async def run(self, running: Running) -> Outcome:
        """Run to the end, whatever that is; never raises for one job."""
        try:
            return _if_cancelled(running, await self._outcome(running))
        finally:
            running.ended = True
            running.task.output.close()

    async def _outcome(self, running: Running) -> Outcome:
        if not running.claimed.payload_intact:
            return DAMAGED_PAYLOAD
        task = running.task
        self.extend(running, task.job_type.timeout)
        try:
            return await self._executors[task.job_type.handler.kind].run(task)
        except Exception as error:
            self._shared.meter.count("executor_errors")
            log.exception("executor failed on %s", running.claimed.lease.job_id)
            return Outcome(kind=OutcomeKind.CRASHED, error=f"the executor failed: {error}")
        finally:
            if running.timer is not None:
                running.timer.cancel()

    def extend(self, running: Running, milliseconds: int) -> None:
        """Give an attempt so much time from now, where it has less."""
        loop, seconds = asyncio.get_running_loop(), milliseconds / 1000
        if running.timer is not None:
            if running.timer.when() >= loop.time() + seconds:
                return
            running.timer.cancel()
        stop = running.task.stop
        running.timer = loop.call_later(seconds, stop.ask, StopReason.TIMEOUT)


def _if_cancelled(running: Running, outcome: Outcome) -> Outcome:
    """A handler that failed by itself when it was told to stop must not run again."""
    if running.task.stop.reason is not StopReason.CANCELLED or outcome.kind in _LAST:
        return outcome
    return msgspec.structs.replace(outcome, kind=OutcomeKind.CANCELLED)
