"""The daemon's end of the line to its launcher process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL

from jobqueued.executors.exits import Exit
from jobqueued.executors.launcher import MAX_MESSAGE
from jobqueued.executors.leftovers import end_leftovers, end_orphans
from jobqueued.executors.processes import TOKEN_VARIABLE, become_subreaper, children
from jobqueued.executors.spawn import SHORTAGES, Order

CLOSE_SECONDS = 5.0
RECEIVE_SIZE = 64 * 1024
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class CannotStart(Exception):
    """The handler's process was not started; the text says why."""


class NoRoom(CannotStart):
    """This machine had no process, descriptor or memory for it."""


class LauncherLost(Exception):
    """The launcher died; what it ran has been killed."""


@dataclass(slots=True)
class Process:
    """A handler process that was ordered: its end arrives in `ended`."""

    id: int
    token: str
    ended: asyncio.Future[Exit] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message that did not fit into the socket yet."""

    data: bytes
    descriptors: tuple[int, ...] = ()
    sent: asyncio.Future[None] | None = None


class LauncherLink:
    """One launcher process and the handlers it runs for us."""

    def __init__(self, pass_fds: tuple[int, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._running: dict[int, Process] = {}
        self._outgoing: deque[Outgoing] = deque()
        self._burial: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._why_lost = "the process launcher died"
        self._socket, self._launcher = start_launcher(pass_fds)
        self._loop.add_reader(self._socket.fileno(), self._receive)

    @property
    def alive(self) -> bool:
        """Whether orders are still taken."""
        return self._burial is None

    @property
    def gone(self) -> bool:
        """Whether the launcher is dead and all it ran is too."""
        return self._gone.is_set()

    @property
    def pid(self) -> int:
        """The process id of the launcher."""
        return self._launcher.pid

    async def start(
        self,
        *,
        token: str,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str | None,
        user: str | None,
        memory: int | None,
        streams: tuple[int, int, int],
    ) -> Process:
        """Order a process; returns when the launcher has its descriptors."""
        process = Process(next(self._ids), token)
        order = Order(
            id=process.id, token=token, argv=list(argv), env=env, cwd=cwd, user=user, memory=memory
        )
        data = order.encode()
        if len(data) > MAX_MESSAGE:
            raise CannotStart("the command line and `env` are too long")
        self._running[process.id] = process
        self._wake_launcher()
        try:
            await self._send(data, streams)
        except BaseException:
            # A cancelled caller may have been overtaken by its own order.
            self.signal(process, SIGKILL)
            self._running.pop(process.id, None)
            raise
        return process

    def signal(self, process: Process, number: int) -> None:
        """Signal the process group of a handler; nothing happens when it has ended."""
        if not self.alive or process.id not in self._running:
            return
        self._wake_launcher()
        message = json.dumps({"id": process.id, "signal": number}).encode()
        with contextlib.suppress(LauncherLost):
            if self._outgoing or not self._try_to_send(message, ()):
                self._queue(Outgoing(message))

    async def close(self) -> None:
        """End the launcher and every process it started."""
        self._why_lost = "the daemon stopped"
        if self.alive:
            self._wake_launcher()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._gone.wait()
        # One that does not answer is killed, with all it ran.
        self._bury()
        await self._gone.wait()

    def _wake_launcher(self) -> None:
        """One that somebody has stopped would do nothing; to any other this means nothing."""
        self._launcher.send_signal(SIGCONT)

    async def _send(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        if not self._outgoing and self._try_to_send(data, descriptors):
            return
        waiting = Outgoing(data, descriptors, self._loop.create_future())
        self._queue(waiting)
        try:
            await _done(waiting)
        finally:
            if waiting in self._outgoing:
                self._outgoing.remove(waiting)

    def _try_to_send(self, data: bytes, descriptors: tuple[int, ...]) -> bool:
        try:
            socket.send_fds(self._socket, [data], list(descriptors))
        except BlockingIOError:
            return False
        except ConnectionError:
            self._receive()
            self._bury()
            raise LauncherLost(f"{self._why_lost} before the handler was started") from None
        except OSError as error:
            kind = NoRoom if error.errno in SHORTAGES else CannotStart
            raise kind(f"the process launcher took no order: {error.strerror}") from error
        return True

    def _queue(self, message: Outgoing) -> None:
        self._outgoing.append(message)
        self._loop.add_writer(self._socket.fileno(), self._send_queued)

    def _send_queued(self) -> None:
        while self._outgoing:
            message = self._outgoing[0]
            try:
                if not self._try_to_send(message.data, message.descriptors):
                    return
            except LauncherLost:
                return
            except CannotStart as error:
                _settle(message, error)
            else:
                _settle(message, None)
            self._outgoing.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        while self.alive:
            try:
                data = self._socket.recv(RECEIVE_SIZE)
            except BlockingIOError:
                return
            except ConnectionError:
                # Said once; what the launcher reported before it died can still be read.
                continue
            if not data:
                self._bury()
                return
            self._take(json.loads(data))

    def _take(self, report: Mapping[str, int | str | None]) -> None:
        process = self._running.pop(int(report["id"] or 0), None)
        if process is None or process.ended.done():
            return
        if "error" in report:
            kind = NoRoom if report["shortage"] else CannotStart
            process.ended.set_exception(kind(str(report["error"])))
        else:
            process.ended.set_result(Exit(*(_number(report[name]) for name in EXIT_FIELDS)))

    def _bury(self) -> None:
        if self._burial is not None:
            return
        self._hang_up()
        self._burial = self._loop.create_task(self._end_what_ran())

    async def _end_what_ran(self) -> None:
        tokens = {process.token for process in self._running.values()}
        try:
            await asyncio.to_thread(self._collect, tokens)
        finally:
            self._end_all(LauncherLost(f"{self._why_lost} while the handler ran"))
            self._gone.set()

    def _collect(self, tokens: set[str]) -> None:
        self._launcher.kill()
        self._launcher.wait()
        _own_children.discard(self._launcher.pid)
        end_leftovers(tokens)
        end_orphans(_orphans)

    def _end_all(self, error: Exception) -> None:
        for process in self._running.values():
            if not process.ended.done():
                process.ended.set_exception(error)
        self._running.clear()

    def _hang_up(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for message in self._outgoing:
            _settle(message, LauncherLost(f"{self._why_lost} before the handler was started"))
        self._outgoing.clear()


EXIT_FIELDS = ("code", "signal", "max_rss_bytes", "cpu_ms")


_starting = threading.Lock()
"""Held while there may be a child that is not in the list yet."""
_own_children: set[int] = set()


def take_in_orphans() -> None:
    """Have all that a launcher runs come to this process when the launcher is killed."""
    _own_children.update(children())
    become_subreaper()


def _orphans() -> set[int]:
    with _starting:
        return children() - _own_children


def start_launcher(pass_fds: tuple[int, ...]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a launcher process; returns our end of its socket, which does not block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_MESSAGE)
        ours.setblocking(False)
        with _starting:
            process = subprocess.Popen(
                _launcher_command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_launcher_environment(),
                pass_fds=(theirs.fileno(), *pass_fds),
                start_new_session=True,
            )
            _own_children.add(process.pid)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, process


def _launcher_command(descriptor: int) -> list[str]:
    code = (
        f"import sys; sys.path.append({str(PACKAGE_ROOT)!r}); "
        f"from jobqueued.executors.launcher import main; main({descriptor})"
    )
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]


def _launcher_environment() -> dict[str, str]:
    """Never a token, which would make it a leftover; the C locale, which maps no big files."""
    kept = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    return kept | {"LC_ALL": "C"}


def _number(value: int | str | None) -> int | None:
    return None if value is None else int(value)


async def _done(message: Outgoing) -> None:
    if message.sent is not None:
        await message.sent


def _settle(message: Outgoing, error: Exception | None) -> None:
    if message.sent is None or message.sent.done():
        return
    if error is None:
        message.sent.set_result(None)
    else:
        message.sent.set_exception(error)
