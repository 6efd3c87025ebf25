"""How the launcher starts one process, and what it says when it cannot. Standard library only."""

from __future__ import annotations

import errno
import json
import os
import pwd
import resource
import subprocess
from collections.abc import Callable
from functools import partial

ROOM_TO_WORK = 32 * 1024 * 1024


class Order:
    """What to start. Its three standard streams travel beside it."""

    def __init__(
        self,
        *,
        id: int,
        token: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str | None,
        user: str | None,
        memory: int | None,
    ) -> None:
        self.id = id
        self.token = token
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.user = user
        self.memory = memory

    def encode(self) -> bytes:
        """As it travels to the launcher."""
        return json.dumps(vars(self)).encode()


class Unstartable(Exception):
    """A handler that cannot be started; the text says why."""


class NoDescriptors(Unstartable):
    """There were none left for the handler's streams."""


SHORTAGES = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors of a machine, or a daemon, that has no more to give."""


START_ERRORS = (
    OSError,
    Unstartable,
    ValueError,
    RuntimeError,
    MemoryError,
    subprocess.SubprocessError,
)


def spawn(order: Order, streams: list[int]) -> int:
    """Start the process under its limits and return its id."""
    if len(streams) != 3:
        raise NoDescriptors("too many open files; raise LimitNOFILE of the daemon")
    if order.memory is None:
        return popen(order, streams)
    limit = at_most(order.memory, resource.getrlimit(resource.RLIMIT_AS)[1])
    if order.user is None and limit >= own_memory() + ROOM_TO_WORK:
        return spawn_limited(order, streams, limit)
    # Nobody without CAP_SYS_RESOURCE can limit another user's process from outside, and a limit too
    # small for this process cannot be inherited from it. Such a child is forked; this process has
    # one thread, so a call between fork and exec is safe.
    return popen(order, streams, partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit)))


def spawn_limited(order: Order, streams: list[int], limit: int) -> int:
    """Start a process with a memory limit without the price of a fork.

    The child inherits a limit of our own, so that it holds from its first instruction.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        pid = popen(order, streams)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    make_final(pid, limit)
    return pid


def popen(order: Order, streams: list[int], before_exec: Callable[[], object] | None = None) -> int:
    """Start the process in a session of its own, with these streams and no other descriptor."""
    account = None if order.user is None else account_of(order.user)
    environment = order.env
    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    if account is not None:
        environment = home_of(account) | environment
        if account.pw_uid != os.geteuid():
            uid, gid = account.pw_uid, account.pw_gid
            groups = os.getgrouplist(account.pw_name, gid)
            give_away(streams, account)
    process = subprocess.Popen(
        order.argv,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        cwd=order.cwd,
        env=environment,
        user=uid,
        group=gid,
        extra_groups=groups,
        start_new_session=True,
        preexec_fn=before_exec,
    )
    process.returncode = 0  # Collected here, never by the object.
    return process.pid


def account_of(user: str) -> pwd.struct_passwd:
    """The account with this name or number."""
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        raise Unstartable(f"there is no user {user!r} on this machine") from None


def home_of(account: pwd.struct_passwd) -> dict[str, str]:
    """The variables that name a user and its home."""
    return {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}


def give_away(streams: list[int], account: pwd.struct_passwd) -> None:
    """Let another user open its own /dev/stdout and /dev/stderr."""
    if os.geteuid() == 0:
        for stream in streams:
            os.fchown(stream, account.pw_uid, account.pw_gid)


def reason(error: Exception, order: Order) -> str:
    """Why a handler was not started, and what to do."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    if error.errno == errno.EPERM and order.user is not None:
        return f"the daemon may not become user {order.user!r}; only root can"
    if error.filename is not None and error.filename == order.cwd:
        return f"the working directory {order.cwd!r} cannot be entered: {error.strerror}"
    return f"{order.argv[0]!r}: {error.strerror}" + ADVICE.get(error.errno or 0, "")


def is_shortage(error: Exception, order: Order) -> bool:
    """Whether it is not the handler's doing; its own memory limit is."""
    if isinstance(error, NoDescriptors):
        return True
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return order.memory is None
    return isinstance(error, OSError) and error.errno in SHORTAGES


ADVICE = {
    errno.ENOENT: "; check `command`, and the interpreter its first line names",
    errno.EACCES: "; check that it is a program this user may run (chmod +x)",
    errno.ENOEXEC: "; a script needs a first line such as #!/bin/sh",
    errno.E2BIG: "; the command line and `env` are too long",
    errno.EAGAIN: "; too many processes (LimitNPROC, TasksMax)",
    errno.ENOMEM: "; this machine has no memory left",
    errno.EMFILE: "; raise LimitNOFILE of the daemon",
    errno.ENFILE: "; this machine has no more descriptors (fs.file-max)",
}


def at_most(value: int, hard: int) -> int:
    """A limit that the hard one allows."""
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def make_final(pid: int, limit: int) -> None:
    """Keep a child from raising its limit again; one that is gone or not ours stays as it is."""
    try:
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
    except (OSError, ValueError):
        return


def own_memory() -> int:
    """Bytes of address space this process uses."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
