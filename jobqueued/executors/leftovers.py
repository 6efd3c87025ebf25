"""Ends processes of attempts whose daemon or launcher died without doing so."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterable

from jobqueued import clock
from jobqueued.executors.processes import (
    collect_if_dead,
    every_pid,
    is_subreaper,
    kill_all,
    token_of,
)


def end_leftovers(tokens: set[str], deadline_seconds: float = 2.0) -> int:
    """Kill every process started under one of these lease tokens; returns how many there were.

    Blocks until they are gone or the time is up: call it in a thread.
    """
    deadline = clock.monotonic() + deadline_seconds
    ended: set[int] = set()
    while found := _processes_of(tokens):
        ended |= found
        _kill_and_wait(found, deadline)
        if clock.monotonic() >= deadline:
            break
    return len(ended)


def end_orphans(orphans: Callable[[], set[int]], deadline_seconds: float = 2.0) -> int:
    """Kill and collect children that nobody here has started; returns how many there were.

    Where orphans come to this process, these are what a launcher that was killed had run, whatever
    they have done to their environment, group or session. Blocks: call it in a thread.
    """
    if not is_subreaper():
        return 0
    deadline = clock.monotonic() + deadline_seconds
    ended: set[int] = set()
    while (found := orphans()) and clock.monotonic() < deadline:
        ended |= found
        _kill_and_wait(found, deadline)
        for pid in found:
            collect_if_dead(pid)
    return len(ended)


def _processes_of(tokens: set[str]) -> set[int]:
    if not tokens:
        return set()
    ours = os.getpid()
    return {pid for pid in every_pid() if pid != ours and token_of(pid) in tokens}


def _kill_and_wait(pids: set[int], deadline: float) -> None:
    with contextlib.ExitStack() as handles:
        opened = [handle for pid in pids if (handle := _handle(pid)) is not None]
        for handle in opened:
            handles.callback(os.close, handle)
        kill_all(pids)
        _wait(opened, deadline)


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _wait(handles: Iterable[int], deadline: float) -> None:
    poll = select.poll()
    waiting = set(handles)
    for handle in waiting:
        poll.register(handle, select.POLLIN)
    while waiting and (left := deadline - clock.monotonic()) > 0:
        for handle, _ in poll.poll(left * 1000):
            with contextlib.suppress(KeyError):
                poll.unregister(handle)
            waiting.discard(handle)
