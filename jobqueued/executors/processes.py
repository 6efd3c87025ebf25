"""Facts about processes, and how they are killed. Standard library only: the launcher needs it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable

TOKEN_VARIABLE = "JOB_LEASE_TOKEN"
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
EXITING_FLAG = 0x4
FLAGS_FIELD = 6


def become_subreaper() -> None:
    """Orphans of our descendants come to this process instead of to init."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_subreaper() -> bool:
    """Whether orphans come to this process."""
    answer = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def newest_pid() -> int:
    """The process id given out last."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[-1])


def every_pid() -> list[int]:
    """All process ids there are."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def dead_child() -> int | None:
    """A child that has ended and is not collected."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def children() -> set[int]:
    """Our children, alive or dead."""
    return {pid for pid in every_pid() if is_child(pid)}


def collect_if_dead(pid: int) -> None:
    """Free the number of a child that has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def has_children() -> bool:
    """Whether any child is left, alive or dead."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_child(pid: int) -> bool:
    """Whether this is a child of ours, alive or dead."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def group_of(pid: int) -> int | None:
    """The process group of a process, if there is one."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def is_exiting(pid: int) -> bool:
    """Whether a process is on its way out; its environment can no longer be read then."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return bool(int(fields[FLAGS_FIELD]) & EXITING_FLAG)


def token_of(pid: int) -> str | None:
    """The lease token in the environment a process was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = b"\0" + file.read()
    except OSError:
        return None
    _, found, rest = environment.partition(b"\0" + TOKEN_VARIABLE.encode() + b"=")
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None


def kill_all(pids: Iterable[int]) -> set[int]:
    """SIGKILL these processes and their groups; returns those that will die of it."""
    return {pid for pid in pids if kill_with_group(pid)}


def kill_with_group(pid: int) -> bool:
    """SIGKILL a process and its group, unless that is our own; False when it may not be done."""
    group = group_of(pid)
    if group is not None and group != os.getpgrp():
        signal_group(group, signal.SIGKILL)
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_group(group: int, number: int) -> None:
    """Signal a group; one that is gone, or that may not be signalled, stays as it is."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
