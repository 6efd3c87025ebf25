"""Runs `command` handlers: one program per attempt, in a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import msgspec

from jobqueued.executors.environment import base_environment, job_environment, owner_environment
from jobqueued.executors.exits import Exit, outcome_before_start, outcome_of_exit, with_result
from jobqueued.executors.interface import Executor, Task
from jobqueued.executors.launcher_link import (
    CannotStart,
    LauncherLink,
    LauncherLost,
    NoRoom,
    Process,
)
from jobqueued.executors.launchers import Launchers
from jobqueued.executors.shortage import Shortage
from jobqueued.executors.streams import Streams, open_streams
from jobqueued.model.job_type import CommandHandler, Handler
from jobqueued.model.outcome import Outcome, OutcomeKind

KILL_SECONDS = 2.0
ENDING_SIZE = 4096


class CommandExecutor(Executor):
    """Starts programs through a launcher process, which it starts again should it die.

    Descriptors in `pass_fds` stay open in the launcher until its last handler is dead.
    """

    def __init__(self, pass_fds: tuple[int, ...] = ()) -> None:
        self._launchers = Launchers(pass_fds)
        self._base = base_environment(os.environ)
        self._owner = owner_environment(os.environ)
        self._shortage = Shortage()

    def resting_until(self, handler: Handler) -> int | None:
        """Until when this machine had better not be asked for more processes."""
        return self._shortage.resting_until()

    async def start(self) -> None:
        """Have the launcher ready; without this the first task starts it."""
        self._launchers.current()

    @property
    def launcher_pid(self) -> int | None:
        """The process id of the launcher, if there is one."""
        return self._launchers.pid

    async def run(self, task: Task) -> Outcome:
        """Run a program to its end, or until stopped."""
        try:
            outcome = await self._attempt(task)
        finally:
            task.output.close()
        return msgspec.structs.replace(outcome, log=task.output.snapshot() or None)

    async def close(self) -> None:
        """End every process and give back every descriptor."""
        await self._launchers.close()

    async def _attempt(self, task: Task) -> Outcome:
        if task.stop.reason is not None:
            return outcome_before_start(task.stop.reason, task.job_type.timeout)
        collect = command_handler(task).result_from_stdout
        try:
            with open_streams(task.claimed.payload, task.output, collect) as streams:
                return await self._run_with(task, streams)
        except LauncherLost as error:
            return Outcome(kind=OutcomeKind.LOST, error=str(error))
        except NoRoom as error:
            return self._shortage.outcome(f"cannot start: {error}")
        except CannotStart as error:
            return Outcome(kind=OutcomeKind.FAILED, error=f"cannot start: {error}")
        except (OSError, MemoryError) as error:
            return self._shortage.judge(error)

    async def _run_with(self, task: Task, streams: Streams) -> Outcome:
        link = self._launchers.current()
        process = await self._start(link, task, streams)
        streams.handed_over()
        ended = await _end_of(link, process, task)
        await streams.finish()
        return _outcome(task, ended, streams)

    async def _start(self, link: LauncherLink, task: Task, streams: Streams) -> Process:
        handler = command_handler(task)
        owner = self._owner if handler.user is None else {}
        return await link.start(
            token=task.claimed.lease.token,
            argv=handler.argv,
            env=self._base | owner | job_environment(task) | handler.env,
            cwd=handler.cwd,
            user=handler.user,
            memory=handler.memory,
            streams=streams.for_handler,
        )


def command_handler(task: Task) -> CommandHandler:
    """The command that a task is to run."""
    handler = task.job_type.handler
    if not isinstance(handler, CommandHandler):
        raise TypeError(f"type {task.job_type.name} is run by {handler.kind}, not by a command")
    return handler


async def _end_of(link: LauncherLink, process: Process, task: Task) -> Exit:
    """Wait for the end of the process, which is brought about when the task is to stop."""
    obey = asyncio.create_task(_stop_when_asked(link, process, task))
    try:
        return await asyncio.shield(process.ended)
    except BaseException:
        # Whatever happened here, nothing may run on that nobody waits for.
        if not process.ended.done():
            link.signal(process, signal.SIGKILL)
            await asyncio.wait([process.ended], timeout=KILL_SECONDS)
        raise
    finally:
        obey.cancel()


async def _stop_when_asked(link: LauncherLink, process: Process, task: Task) -> None:
    stop = task.stop
    await stop.asked.wait()
    if not stop.killed.is_set():
        link.signal(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(command_handler(task).kill_grace / 1000):
                await stop.killed.wait()
    link.signal(process, signal.SIGKILL)


def _outcome(task: Task, ended: Exit, streams: Streams) -> Outcome:
    outcome = outcome_of_exit(
        ended,
        handler=command_handler(task),
        timeout=task.job_type.timeout,
        stop=task.stop.reason,
        output=task.output.ending(ENDING_SIZE),
    )
    if streams.result is None:
        return outcome
    return with_result(outcome, bytes(streams.result.data), streams.result.whole)
