"""The process that starts every handler and ends what they leave behind.

It is one small process with one thread, so starting a handler never holds up the daemon's event
loop. When the daemon is killed it lives on, and keeps the daemon's lock, until it has killed every
handler. It uses the standard library alone: it starts at once, and stays small.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Mapping

from jobqueued.executors.processes import (
    become_subreaper,
    children,
    dead_child,
    every_pid,
    group_of,
    has_children,
    is_child,
    is_exiting,
    kill_all,
    newest_pid,
    signal_group,
    token_of,
)
from jobqueued.executors.spawn import START_ERRORS, Order, is_shortage, reason, spawn

MAX_MESSAGE = 384 * 1024
OOM_SCORE = 500
YOUNG_SECONDS = 1.0
NEARBY_PIDS = 256
HARMLESS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCHLD,
)


class Handler:
    """A handler process this launcher started, and what is being ended in its name."""

    def __init__(self, order: Order, pid: int) -> None:
        self.id = order.id
        self.token = order.token
        self.pid = pid
        self.started = time.monotonic()
        self.doomed: set[int] = set()
        self.report: dict[str, int | None] = {}

    def end(self, status: int, usage: resource.struct_rusage) -> None:
        """Note how the process ended; it is reported when nothing of it is left."""
        code = os.waitstatus_to_exitcode(status)
        self.report = {
            "id": self.id,
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_ms": round((usage.ru_utime + usage.ru_stime) * 1000),
        }


class Launcher:
    """Takes orders from one socket; the end of that socket is the end of everything."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.running: dict[int, Handler] = {}
        self.pids: dict[int, int] = {}
        self.ending: list[Handler] = []
        self.buffer = bytearray(MAX_MESSAGE)

    def serve(self, wakeups: int) -> None:
        """Work until the daemon is gone."""
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(wakeups, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if wakeups in ready:
                os.read(wakeups, 4096)
                self.reap()
            if self.link.fileno() in ready and not self.receive():
                return

    def receive(self) -> bool:
        """Carry out one message; False when there will be no more."""
        try:
            size, ancillary, _, _ = self.link.recvmsg_into(
                [self.buffer], socket.CMSG_SPACE(3 * 4), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return False
        if not size:
            return False
        message = json.loads(self.buffer[:size])
        if "signal" in message:
            self.send_signal(message["id"], message["signal"])
        else:
            self.start(Order(**message), received_descriptors(ancillary))
        return True

    def start(self, order: Order, streams: list[int]) -> None:
        """Start a handler, or say why not."""
        try:
            pid = spawn(order, streams)
        except START_ERRORS as error:
            short = is_shortage(error, order)
            self.reply({"id": order.id, "error": reason(error, order), "shortage": short})
        else:
            self.running[pid] = Handler(order, pid)
            self.pids[order.id] = pid
        finally:
            for stream in streams:
                os.close(stream)

    def send_signal(self, order_id: int, number: int) -> None:
        """Signal the whole group of a handler that still runs."""
        pid = self.pids.get(order_id)
        if pid is None:
            return
        signal_group(pid, number)
        if number != signal.SIGKILL:
            signal_group(pid, signal.SIGCONT)

    def reap(self) -> None:
        """Collect every dead child and report the handlers of which nothing is left."""
        while (pid := dead_child()) is not None:
            handler = self.running.pop(pid, None)
            if handler is not None:
                # The group's number cannot be given away while its leader is not collected.
                signal_group(pid, signal.SIGKILL)
                del self.pids[handler.id]
                self.ending.append(handler)
            _, status, usage = os.wait4(pid, 0)
            if handler is not None:
                handler.end(status, usage)
            for ending in self.ending:
                ending.doomed.discard(pid)
        self.finish()

    def finish(self) -> None:
        """Report each ended handler, unless some of its processes must be ended first."""
        for handler in [handler for handler in self.ending if not handler.doomed]:
            handler.doomed |= kill_all(self.left_by(handler))
            if not handler.doomed:
                self.ending.remove(handler)
                self.reply(handler.report)

    def left_by(self, handler: Handler) -> list[int]:
        """Our children that this handler left behind; when nothing else runs, all that are left."""
        alone = not self.running and len(self.ending) == 1
        if alone and not has_children():
            return []
        orphans = [pid for pid in self.candidates(handler) if self.is_orphan(pid)]
        if alone:
            return orphans
        return [pid for pid in orphans if belongs(pid, handler)]

    def candidates(self, handler: Handler) -> list[int]:
        """Process ids among which everything this handler started must be."""
        if time.monotonic() - handler.started < YOUNG_SECONDS:
            newer = newest_pid() - handler.pid
            if 0 <= newer <= NEARBY_PIDS:
                return list(range(handler.pid + 1, handler.pid + newer + 1))
        return every_pid()

    def is_orphan(self, pid: int) -> bool:
        """Whether a process came to us because its parent died."""
        return pid not in self.running and is_child(pid)

    def reply(self, message: Mapping[str, int | str | None]) -> None:
        """Tell the daemon; when it is gone, the end of the socket says so too."""
        try:
            self.link.send(json.dumps(message).encode())
        except ConnectionError:
            return

    def end_everything(self) -> None:
        """Kill and collect every process that came from a handler."""
        while doomed := kill_all(children()):
            for _ in doomed:
                os.wait4(-1, 0)


def received_descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    received: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.extend(memoryview(data[: len(data) // 4 * 4]).cast("i"))
    return received


def belongs(pid: int, handler: Handler) -> bool:
    """Whether a child comes from this handler: by its group, or by the token it was given.

    One that is just exiting can no longer be told, and its own children come to us when it is
    gone, so it counts as well.
    """
    return group_of(pid) == handler.pid or token_of(pid) == handler.token or is_exiting(pid)


def catch_signals() -> int:
    """Let no signal to the daemon's surroundings end this process; a descriptor tells of them.

    They are caught, not ignored: what is ignored here would stay ignored in every handler.
    """
    wakeups, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in HARMLESS:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return wakeups


def go_first_when_memory_runs_out() -> None:
    """Handlers inherit this, so the kernel takes one of them before the daemon."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            score = max(int(file.read()), OOM_SCORE)
            file.seek(0)
            file.write(str(score))
    except OSError:
        return


def main(descriptor: int) -> None:
    """Serve the socket with this descriptor."""
    wakeups = catch_signals()
    become_subreaper()
    go_first_when_memory_runs_out()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    launcher = Launcher(socket.socket(fileno=descriptor))
    try:
        launcher.serve(wakeups)
    finally:
        launcher.end_everything()
