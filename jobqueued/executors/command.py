"""Runs `command` handlers: one program per attempt, in a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import msgspec

from jobqueued.executors.environment import base_environment, job_environment, owner_environment
from jobqueued.executors.exits import Exit, outcome_before_start, outcome_of_exit, with_result
from jobqueued.executors.interface import Task
from jobqueued.executors.launcher_link import CannotStart, LauncherLink, LauncherLost, Process
from jobqueued.executors.streams import Streams, open_streams
from jobqueued.model.outcome import Outcome, OutcomeKind

KILL_SECONDS = 2.0
ENDING_SIZE = 4096


class CommandExecutor:
    """Starts programs through a launcher process, which it starts again should it die.

    Descriptors in `pass_fds` stay open in the launcher until its last handler is dead.
    """

    def __init__(self, pass_fds: tuple[int, ...] = ()) -> None:
        self._pass_fds = pass_fds
        self._links: list[LauncherLink] = []
        self._base = base_environment(os.environ)
        self._owner = owner_environment(os.environ)

    async def start(self) -> None:
        """Have the launcher ready; without this the first task starts it."""
        self._launcher()

    @property
    def launcher_pid(self) -> int | None:
        """The process id of the launcher, if there is one."""
        return self._links[-1].pid if self._links and self._links[-1].alive else None

    async def run(self, task: Task) -> Outcome:
        """Run a program to its end, or until stopped."""
        try:
            outcome = await self._attempt(task)
        finally:
            task.output.close()
        return msgspec.structs.replace(outcome, log=task.output.snapshot() or None)

    async def close(self) -> None:
        """End every process and give back every descriptor."""
        links, self._links = self._links, []
        for link in links:
            await link.close()

    def _launcher(self) -> LauncherLink:
        if not self._links or not self._links[-1].alive:
            self._links = [link for link in self._links if not link.gone]
            self._links.append(LauncherLink(self._pass_fds))
        return self._links[-1]

    async def _attempt(self, task: Task) -> Outcome:
        if task.stop.reason is not None:
            return outcome_before_start(task.stop.reason, task.job_type.timeout)
        collect = task.job_type.handler.result_from_stdout
        try:
            with open_streams(task.claimed.payload, task.output, collect) as streams:
                return await self._run_with(task, streams)
        except LauncherLost as error:
            return Outcome(kind=OutcomeKind.LOST, error=str(error))
        except CannotStart as error:
            return Outcome(kind=OutcomeKind.FAILED, error=f"cannot start: {error}")
        except OSError as error:
            return Outcome(kind=OutcomeKind.FAILED, error=f"cannot start a process: {error}")

    async def _run_with(self, task: Task, streams: Streams) -> Outcome:
        link = self._launcher()
        process = await self._start(link, task, streams)
        streams.handed_over()
        ended = await _end_of(link, process, task)
        await streams.finish()
        return _outcome(task, ended, streams)

    async def _start(self, link: LauncherLink, task: Task, streams: Streams) -> Process:
        handler = task.job_type.handler
        owner = self._owner if handler.user is None else {}
        return await link.start(
            token=task.claimed.lease.token,
            argv=handler.argv,
            env=self._base | owner | job_environment(task),
            cwd=handler.cwd,
            user=handler.user,
            memory=handler.memory,
            streams=streams.for_handler,
        )


async def _end_of(link: LauncherLink, process: Process, task: Task) -> Exit:
    """Wait for the end of the process, which is brought about when the task is to stop."""
    obey = asyncio.create_task(_stop_when_asked(link, process, task))
    try:
        return await asyncio.shield(process.ended)
    except asyncio.CancelledError:
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
            async with asyncio.timeout(task.job_type.handler.kill_grace / 1000):
                await stop.killed.wait()
    link.signal(process, signal.SIGKILL)


def _outcome(task: Task, ended: Exit, streams: Streams) -> Outcome:
    outcome = outcome_of_exit(
        ended,
        handler=task.job_type.handler,
        timeout=task.job_type.timeout,
        stop=task.stop.reason,
        output=task.output.ending(ENDING_SIZE),
    )
    if streams.result is None:
        return outcome
    return with_result(outcome, bytes(streams.result.data), streams.result.whole)
