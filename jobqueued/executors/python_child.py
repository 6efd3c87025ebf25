"""One long-lived Python process that runs one job at a time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from jobqueued.executors.exits import Exit
from jobqueued.executors.interface import Task
from jobqueued.executors.launcher_link import CannotStart, LauncherLink, LauncherLost, Process
from jobqueued.executors.python_channel import Channel, ChannelClosed
from jobqueued.executors.python_start import (
    ERRORS,
    RUNNER,
    child_environment,
    command_line,
    settings_of,
    told_about,
)
from jobqueued.executors.streams import LAST_MOMENT, Capture
from jobqueued.model.job_type import PythonHandler
from jobqueued.model.outcome import OutcomeKind

KILL_SECONDS = 2.0


class Ending(msgspec.Struct, array_like=True, frozen=True, tag="ended"):
    """The child's word that a job is over."""

    job: int
    cpu_ms: int
    max_rss_bytes: int
    last: bool
    has_output: bool
    """Whether some of it was not read yet."""
    kind: OutcomeKind
    error: str | None = None
    retry_after_ms: int | None = None


class Progress(msgspec.Struct, array_like=True, frozen=True, tag="progress"):
    """How far a job is."""

    job: int
    percent: float
    message: str | None


class Extension(msgspec.Struct, array_like=True, frozen=True, tag="extend"):
    """A wish for more time."""

    job: int
    milliseconds: int


_decode = msgspec.json.Decoder(Ending | Progress | Extension).decode


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a job whose function came to an end, and what it returned as JSON."""

    ending: Ending
    result: bytes


class LineBroken(Exception):
    """The handler wrote into the line between its process and the daemon."""


class Hooks:
    """Who is told what handlers report while they run: by lease token."""

    def __init__(
        self,
        on_progress: Callable[[str, float, str | None], None],
        on_extend: Callable[[str, int], None],
    ) -> None:
        self.on_progress = on_progress
        self.on_extend = on_extend


class Child:
    """The process, its channel and its output; `gone` is called when nothing of it is left."""

    def __init__(self, handler: PythonHandler, hooks: Hooks, gone: Callable[[Child], None]) -> None:
        self.handler = handler
        self.jobs = 0
        self.used_up = False
        self.idle_since = 0.0
        self._hooks = hooks
        self._gone = gone
        self._task: Task | None = None
        self._answer: asyncio.Future[Answer | Exit] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._broken = False
        self._has_spoken = False
        self._channel = Channel(self._hear, self._refuse)
        try:
            self._capture = Capture(self._write)
        except OSError:
            self._channel.close()
            raise

    async def start(
        self, link: LauncherLink, task: Task, token: str, surroundings: dict[str, str]
    ) -> None:
        """Have the process started; why it could not be is what its first job ends with."""
        try:
            self._process = await link.start(
                token=token,
                argv=command_line(self.handler),
                env=surroundings | child_environment(task, self.handler, token),
                cwd=self.handler.cwd,
                user=self.handler.user,
                memory=self.handler.memory,
                streams=(*self._channel.for_child, self._capture.writer),
            )
        except BaseException:
            self._close()
            raise
        self._link = link
        self._channel.handed_over()
        self._capture.close_writer()
        self._life = asyncio.create_task(self._live(), name="python child")
        with contextlib.suppress(ChannelClosed):
            self._channel.send_raw(RUNNER)
            self._channel.send(settings_of(self.handler), ERRORS)

    async def perform(self, task: Task) -> Answer | Exit:
        """Run one job; raises ChannelClosed when the child died before it could be given any."""
        answer = self._begin(task)
        try:
            return await answer
        except asyncio.CancelledError:
            self.kill()
            await asyncio.wait([self._life], timeout=KILL_SECONDS)
            raise
        finally:
            task.stop.listener = None
            self._task = self._answer = None

    def retire(self) -> None:
        """Let the process end by itself; it has as long as a handler that is stopped."""
        self.used_up = True
        self._channel.finish()
        if self._ending is None and not self._life.done():
            self._ending = asyncio.create_task(self._kill_after_grace())

    def kill(self) -> None:
        """End the process and its group at once."""
        self.used_up = True
        self._link.signal(self._process, signal.SIGKILL)

    async def wait(self) -> None:
        """Until nothing is left of it."""
        await asyncio.wait([self._life])

    def _begin(self, task: Task) -> asyncio.Future[Answer | Exit]:
        if self._has_spoken:
            # What was written between two jobs belongs to neither.
            self._capture.read_what_is_there()
        self.jobs += 1
        self._task = task
        self._answer = answer = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(told_about(task), task.claimed.payload)
        except ChannelClosed:
            if self.jobs > 1:
                self._task = self._answer = None
                raise
        task.stop.listener = self._stop
        if task.stop.reason is not None:
            self._stop()
        return answer

    def _hear(self, head: bytes, body: bytes) -> None:
        try:
            word = _decode(head)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._refuse()
            return
        if self._task is None or word.job != self.jobs:
            return
        token = self._task.claimed.lease.token
        if isinstance(word, Ending):
            self._end_job(self._task, Answer(word, body))
        elif isinstance(word, Progress):
            self._hooks.on_progress(token, word.percent, word.message)
        else:
            self._hooks.on_extend(token, word.milliseconds)

    def _refuse(self) -> None:
        self._broken = True
        self.kill()

    def _end_job(self, task: Task, answer: Answer) -> None:
        if answer.ending.has_output:
            self._capture.read_what_is_there()
        self.used_up = self.used_up or answer.ending.last
        if task.stop.reason is not None and answer.ending.kind is not OutcomeKind.COMPLETED:
            self.kill()
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _write(self, data: bytes) -> None:
        self._has_spoken = True
        if self._task is not None:
            self._task.output.write(data)

    def _stop(self) -> None:
        self.used_up = True
        if self._ending is None and self._task is not None:
            self._ending = asyncio.create_task(self._end_politely(self._task))

    async def _end_politely(self, task: Task) -> None:
        if not task.stop.killed.is_set():
            self._link.signal(self._process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.handler.kill_grace / 1000):
                    await task.stop.killed.wait()
        self.kill()

    async def _kill_after_grace(self) -> None:
        await asyncio.sleep(self.handler.kill_grace / 1000)
        self.kill()

    async def _live(self) -> None:
        try:
            ended = await _end_of(self._process)
            while self._channel.receive():
                pass
            self._capture.read_what_is_there()
            if not self._capture.ended.done():
                await asyncio.wait([self._capture.ended], timeout=LAST_MOMENT)
        finally:
            self._close()
            self._gone(self)
        if self._answer is None or self._answer.done():
            return
        if self._broken:
            self._answer.set_exception(LineBroken())
        elif isinstance(ended, Exit):
            self._answer.set_result(ended)
        else:
            self._answer.set_exception(ended)

    def _close(self) -> None:
        self.used_up = True
        if self._ending is not None:
            self._ending.cancel()
        self._channel.close()
        self._capture.close()


async def _end_of(process: Process) -> Exit | CannotStart | LauncherLost:
    try:
        return await asyncio.shield(process.ended)
    except (CannotStart, LauncherLost) as error:
        return error
