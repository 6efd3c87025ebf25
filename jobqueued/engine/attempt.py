"""One attempt from start to settled."""

from __future__ import annotations

import asyncio
import logging

from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.engine.settle import Settler
from jobqueued.executors.interface import Executor, StopReason
from jobqueued.model.errors import StoreError
from jobqueued.model.outcome import Outcome, OutcomeKind

log = logging.getLogger("jobqueued.engine")


class Attempts:
    """Runs claimed jobs on the executor of their kind."""

    def __init__(self, shared: Shared, settler: Settler, executors: dict[str, Executor]) -> None:
        self._shared = shared
        self._settler = settler
        self._executors = executors

    async def perform(self, running: Running) -> None:
        """Run, settle, and make the worker free again; never raises for one job."""
        try:
            outcome = await self._outcome(running)
            running.task.output.close()
            await self._settler.settle_claimed(running.claimed, outcome)
        except StoreError as error:
            log.error("outcome of %s not written: %s", running.claimed.lease.job_id, error)
        finally:
            running.task.output.close()
            self._shared.running.remove(running)
            self._shared.changes.notify(running.claimed.lease.job_id)
            self._shared.dispatcher.wake()

    async def _outcome(self, running: Running) -> Outcome:
        if not running.claimed.payload_intact:
            return Outcome(
                kind=OutcomeKind.FATAL,
                error="the payload on disk is damaged (its checksum does not match)",
            )
        task = running.task
        timer = asyncio.get_running_loop().call_later(
            task.job_type.timeout / 1000, task.stop.ask, StopReason.TIMEOUT
        )
        try:
            return await self._executors[task.job_type.handler.kind].run(task)
        except Exception as error:
            self._shared.meter.count("executor_errors")
            log.exception("executor failed on %s", running.claimed.lease.job_id)
            return Outcome(kind=OutcomeKind.CRASHED, error=f"the executor failed: {error}")
        finally:
            timer.cancel()
