"""Runs `python` handlers: functions in long-lived child processes, one job at a time in each."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from jobqueued.executors.environment import base_environment, owner_environment
from jobqueued.executors.exits import Exit, outcome_before_start
from jobqueued.executors.interface import Executor, Task
from jobqueued.executors.launcher_link import CannotStart, LauncherLost, NoRoom
from jobqueued.executors.launchers import Launchers
from jobqueued.executors.python_channel import ChannelClosed
from jobqueued.executors.python_child import Answer, Child, Hooks, LineBroken
from jobqueued.executors.python_outcomes import outcome_of_answer, outcome_of_end
from jobqueued.executors.shortage import Shortage
from jobqueued.model.job_type import Handler, PythonHandler
from jobqueued.model.outcome import Outcome, OutcomeKind

IDLE_SECONDS = 300.0
CLOSE_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Group:
    """The children of one handler: those that rest, the last used on top, and how many work."""

    handler: PythonHandler
    idle: list[Child] = field(default_factory=list)
    busy: int = 0


class PythonExecutor(Executor):
    """Starts children through a launcher of its own when jobs need them, and keeps them warm.

    `on_progress(token, percent, message)` and `on_extend(token, milliseconds)` are called with what
    handlers report. Descriptors in `pass_fds` stay open until the last child is dead.
    """

    def __init__(
        self,
        pass_fds: tuple[int, ...] = (),
        *,
        on_progress: Callable[[str, float, str | None], None],
        on_extend: Callable[[str, int], None],
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._launchers = Launchers(pass_fds)
        self._hooks = Hooks(on_progress, on_extend)
        self._idle_seconds = idle_seconds
        self._groups: dict[str, list[Group]] = {}
        self._children: set[Child] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._base = base_environment(os.environ)
        self._owner = owner_environment(os.environ)
        self._shortage = Shortage()

    def resting_until(self, handler: Handler) -> int | None:
        """Until when this machine had better not be asked for more processes."""
        return self._shortage.resting_until()

    @property
    def children(self) -> int:
        """How many processes there are, working or warm."""
        return len(self._children)

    async def run(self, task: Task) -> Outcome:
        """Call the function in a child, which is told to end when the task is stopped."""
        try:
            outcome = await self._attempt(task)
        finally:
            task.output.close()
        if not task.output.total:
            return outcome
        return msgspec.structs.replace(outcome, log=task.output.snapshot())

    def recycle(self) -> None:
        """Have the application's code loaded anew: the idle end now, the busy after their job."""
        for child in self._children:
            child.used_up = True
        self._retire_idle(None)

    async def close(self) -> None:
        """End every child and give back every descriptor."""
        if self._timer is not None:
            self._timer.cancel()
        resting = [asyncio.create_task(child.wait()) for child in self._retire_idle(None)]
        if resting:
            await asyncio.wait(resting, timeout=CLOSE_SECONDS)
        await self._launchers.close()
        await asyncio.gather(*resting, *(child.wait() for child in self._children))

    async def _attempt(self, task: Task) -> Outcome:
        if task.stop.reason is not None:
            return outcome_before_start(task.stop.reason, task.job_type.timeout)
        try:
            return await self._call(task, self._group(task))
        except LineBroken:
            text = "the handler wrote into the line between its process and the daemon"
            return Outcome(kind=OutcomeKind.CRASHED, error=text)
        except LauncherLost as error:
            return Outcome(kind=OutcomeKind.LOST, error=str(error))
        except NoRoom as error:
            return self._shortage.outcome(f"cannot start: {error}")
        except CannotStart as error:
            # The launcher knows programs only as commands.
            text = str(error).replace("`command`", "`interpreter`")
            return Outcome(kind=OutcomeKind.FAILED, error=f"cannot start: {text}")
        except (OSError, MemoryError) as error:
            return self._shortage.judge(error)

    async def _call(self, task: Task, group: Group) -> Outcome:
        group.busy += 1
        try:
            answer = await self._perform(task, group)
        finally:
            group.busy -= 1
        if isinstance(answer, Answer):
            return outcome_of_answer(answer)
        return outcome_of_end(answer, task, group.handler.memory)

    async def _perform(self, task: Task, group: Group) -> Answer | Exit:
        while True:
            child = group.idle.pop() if group.idle else await self._start(task, group.handler)
            try:
                return await child.perform(task)
            except ChannelClosed:
                # It died while it rested; the job was never given to it.
                child.kill()
            finally:
                self._give_back(child, group)

    async def _start(self, task: Task, handler: PythonHandler) -> Child:
        owner = self._owner if handler.user is None else {}
        child = Child(handler, self._hooks, self._forget)
        await child.start(self._launchers.current(), task, uuid.uuid4().hex, self._base | owner)
        self._children.add(child)
        return child

    def _group(self, task: Task) -> Group:
        handler = python_handler(task)
        groups = self._groups.setdefault(task.job_type.name, [])
        for group in groups:
            if group.handler is handler or group.handler == handler:
                return group
        groups.append(Group(handler))
        return groups[-1]

    def _give_back(self, child: Child, group: Group) -> None:
        if child.used_up or child.jobs >= child.handler.max_jobs_per_child:
            child.retire()
            return
        child.idle_since = asyncio.get_running_loop().time()
        group.idle.append(child)
        if self._timer is None:
            self._set_timer(self._idle_seconds)

    def _forget(self, child: Child) -> None:
        self._children.discard(child)
        for groups in self._groups.values():
            for group in groups:
                if child in group.idle:
                    group.idle.remove(child)

    def _set_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end_long_idle)

    def _end_long_idle(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._retire_idle(now - self._idle_seconds)
        for name, groups in list(self._groups.items()):
            self._groups[name] = [group for group in groups if group.idle or group.busy]
            if not self._groups[name]:
                del self._groups[name]
        rest = [child.idle_since for group in self._every_group() for child in group.idle]
        if rest:
            self._set_timer(min(rest) + self._idle_seconds - now)

    def _retire_idle(self, since: float | None) -> list[Child]:
        """Of the children that rest, end those that have since then, or all."""
        retired = []
        for group in self._every_group():
            ending = [child for child in group.idle if since is None or child.idle_since <= since]
            group.idle = [child for child in group.idle if child not in ending]
            retired += ending
        for child in retired:
            child.retire()
        return retired

    def _every_group(self) -> list[Group]:
        return [group for groups in self._groups.values() for group in groups]


def python_handler(task: Task) -> PythonHandler:
    """The function that a task is to call."""
    handler = task.job_type.handler
    if not isinstance(handler, PythonHandler):
        raise TypeError(f"type {task.job_type.name} is run by {handler.kind}, not by python")
    return handler
