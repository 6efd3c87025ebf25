"""Runs the command of `jobqueued work` the way the daemon runs its own."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import msgspec
from msgspec import Raw

from jobqueued import clock
from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import StopReason, Task
from jobqueued.executors.output import Output
from jobqueued.model.job import Claimed, Lease
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.worker import Context, Fatal, Retry, Worker

log = logging.getLogger("jobqueued.worker")


def command_type(name: str, argv: tuple[str, ...], result_from_stdout: bool) -> JobType:
    """The type as it would be configured here; how long it may run, the daemon knows."""
    handler = CommandHandler(argv=argv, result_from_stdout=result_from_stdout)
    return JobType(name=name, handler=handler)


class Runner:
    """The handler of a worker: one process per job."""

    def __init__(self, job_type: JobType) -> None:
        self._job_type = job_type
        self._executor: CommandExecutor | None = None

    async def serve(self, worker: Worker) -> None:
        """Work until told to stop; no process outlives this."""
        self._executor = CommandExecutor()
        try:
            await worker.serve_until_signal()
        finally:
            await self._executor.close()

    async def run(self, payload: Any, context: Context) -> Raw | None:
        """Run the command for one job; its result."""
        outcome = await self._outcome(self._task(context))
        if outcome.kind is OutcomeKind.COMPLETED:
            return None if outcome.result is None else Raw(outcome.result)
        if outcome.kind is OutcomeKind.FATAL:
            raise Fatal(outcome.error)
        raise Retry(outcome.error or str(outcome.kind))

    async def _outcome(self, task: Task) -> Outcome:
        assert self._executor is not None
        loop = asyncio.get_running_loop()
        limit = task.job_type.timeout / 1000
        timer = loop.call_later(limit, task.stop.ask, StopReason.TIMEOUT)
        process = asyncio.create_task(_run_and_tell(self._executor, task))
        try:
            return await asyncio.shield(process)
        except asyncio.CancelledError:
            # The command is asked first and killed later; nobody else may run the job until then.
            task.stop.ask(StopReason.CANCELLED)
            outcome = await process
            if outcome.kind is not OutcomeKind.COMPLETED:
                raise
            return outcome
        finally:
            timer.cancel()

    def _task(self, context: Context) -> Task:
        now, limit = clock.now(), max(1, round(context.seconds_left * 1000))
        job_type = msgspec.structs.replace(self._job_type, timeout=limit)
        claimed = Claimed(
            lease=Lease(context.id, context.attempt, context.token),
            type=context.type,
            payload=context.payload_json,
            payload_intact=True,
            priority=context.priority,
            max_retries=context.max_retries,
            failures=0,
            losses=0,
            created_at=round(context.created_at.timestamp() * 1000),
            started_at=now,
            correlation_id=context.correlation_id,
            key=context.key,
            tenant=None,
            pool="remote",
            worker="remote",
        )
        deadline = round(context.deadline.timestamp() * 1000)
        return Task(claimed, job_type, deadline, context.url, Output())


async def _run_and_tell(executor: CommandExecutor, task: Task) -> Outcome:
    """Run, and show here what the command wrote: the daemon keeps no log of what runs elsewhere."""
    outcome = await executor.run(task)
    lease = task.claimed.lease
    log.info("job %s attempt %d %s", lease.job_id, lease.attempt, outcome.kind)
    if outcome.log:
        sys.stderr.buffer.write(outcome.log)
        sys.stderr.flush()
    return outcome
