"""Runs in the application's own interpreter: calls one function, one job at a time.

One file, standard library only, for every CPython from 3.8 on. The daemon sends it through the
channel, so nothing of jobqueued has to be installed, or even readable, where it runs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import functools
import importlib.util
import inspect
import json
import os
import resource
import signal
import struct
import sys
import termios
import threading
import time
import traceback
from datetime import datetime, timedelta, timezone
from types import ModuleType
from typing import Any, Callable, NoReturn  # noqa: UP035

OWN_FILE = "<jobqueued>"
MACHINERY = ("asyncio", "importlib", "")
MAX_TEXT = 4096
MAX_MESSAGE = 1024
PROGRESS_SECONDS = 0.1
PR_SET_PDEATHSIG = 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
decode = json.JSONDecoder().decode


class Stopped(BaseException):
    """Raised in a function that is told to stop, so that it can tidy up."""


class Unusable(Exception):
    """What is called, given or returned cannot be used: the kind of failure, and why."""


class Channel:
    """The line to the daemon; any thread may send."""

    def __init__(self, jobs: int, answers: int) -> None:
        self._answers = answers
        self._jobs = open(jobs, "rb", 64 * 1024)  # noqa: SIM115
        self._lock = threading.Lock()

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message, or None when there will be no more."""
        sizes = self._jobs.read(8)
        if len(sizes) < 8:
            return None
        head, body = struct.unpack(">II", sizes)
        message = self._jobs.read(head), self._jobs.read(body)
        return message if len(message[1]) == body else None

    def send(self, head: list[Any], body: bytes = b"") -> None:
        """Send one message whole."""
        line = encode(head).encode()
        data = b"%b%b\n%b" % (struct.pack(">I", len(line) + 1 + len(body)), line, body)
        if self._answers < 0:
            return
        with self._lock:
            while data:
                data = data[os.write(self._answers, data) :]

    def forget(self) -> None:
        """A forked copy of this process has no part in the conversation."""
        os.close(self._answers)
        self._answers = -1


class Context:
    """What a function with a second argument is told about its job."""

    def __init__(self, channel: Channel, job: int, told: bytes, payload: Any) -> None:
        self.payload = payload
        self.id, self.attempt, self.type, created_at, deadline, *more = json.loads(told)
        self.correlation_id, self.key, self.max_retries, self.priority, self.token, self.url = more
        self.created_at = EPOCH + timedelta(milliseconds=created_at)
        self.deadline = EPOCH + timedelta(milliseconds=deadline)
        self._channel, self._job, self._lock = channel, job, threading.RLock()
        self._progress: list[Any] = []
        self._reported = -PROGRESS_SECONDS

    @property
    def log(self) -> Any:
        """A `logging.Logger` that writes into the log of the job."""
        import logging

        logger = logging.getLogger("jobqueued.job")
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return logger

    def progress(self, percent: float, message: str | None = None) -> None:
        """Say how far the job is, from 0 to 100; of many words in a row the last is sent."""
        if not 0 <= percent <= 100:
            raise ValueError(f"progress is a number from 0 to 100, not {percent!r}")
        with self._lock:
            waiting = bool(self._progress)
            text = None if message is None else plain(str(message))[:MAX_MESSAGE]
            self._progress = [float(percent), text]
            if time.monotonic() - self._reported >= PROGRESS_SECONDS:
                self._report()
            elif not waiting:
                later = threading.Timer(PROGRESS_SECONDS, self._report)
                later.daemon = True
                later.start()

    def extend(self, seconds: float) -> None:
        """Ask for so many seconds more from now on."""
        if not 0 < seconds < 1e9:
            raise ValueError(f"extend takes a number of seconds, not {seconds!r}")
        self._channel.send(["extend", self._job, round(seconds * 1000)])

    def _report(self) -> None:
        with self._lock:
            if self._progress:
                self._channel.send(["progress", self._job, *self._progress])
                self._progress, self._reported = [], time.monotonic()


class Runner:
    """Takes jobs from the channel until it ends, or until this process is used up."""

    def __init__(self, channel: Channel, settings: dict[str, Any], flush_c: Callable[[], object]):
        self._channel, self._settings, self._flush_c = channel, settings, flush_c
        self._function: Callable[..., Any] | None = None
        self._wants_context = False
        self._job = self._first_size = 0
        self._cpu, self._log = usage()[0], os.dup(2)
        self._last = self._calling = self._stopping = False
        self._loop: Any = None
        self._task: Any = None

    def serve(self) -> None:
        """Work until there is nothing more to do."""
        signal.signal(signal.SIGTERM, self._told_to_stop)
        os.register_at_fork(after_in_child=self._forked)
        process = os.getpid()
        for message in iter(self._channel.receive, None):
            self._perform(*message)
            if os.getpid() != process:
                os._exit(0)
            if self._last:
                break
        if self._loop is not None:
            close_loop(self._loop)

    def _perform(self, told: bytes, payload: bytes) -> None:
        self._job += 1
        words, result = self._attempt(told, payload)
        self._last = not flush() or self._last or self._has_grown_too_much()
        self._flush_c()
        before, (self._cpu, peak) = self._cpu, usage()
        cpu = round((self._cpu - before) * 1000)
        unread = fcntl.ioctl(self._log, termios.FIONREAD, bytes(4)) != bytes(4)
        self._channel.send(["ended", self._job, cpu, peak, self._last, unread, *words], result)

    def _attempt(self, told: bytes, payload: bytes) -> tuple[list[Any], bytes]:
        try:
            try:
                self._calling = True
                return ["completed"], self._encoded(self._call(told, payload))
            finally:
                self._calling = False
        except BaseException as error:
            if self._stopping and type(error).__name__ in ("Stopped", "CancelledError"):
                write_traceback(error)
                end_by_sigterm()
            return self._failed(error), b""

    def _call(self, told: bytes, payload: bytes) -> Any:
        if self._function is None:
            self._function, self._wants_context = load(**self._settings["function"])
        try:
            value = decode(payload.decode())
        except (ValueError, RecursionError) as error:
            raise Unusable("fatal", f"this Python cannot read the payload: {error}") from None
        more = [Context(self._channel, self._job, told, value)] if self._wants_context else []
        answer = self._function(value, *more)
        if answer is not None and hasattr(type(answer), "__await__"):
            return self._wait_for(answer)
        return answer

    def _wait_for(self, answer: Any) -> Any:
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        self._task = asyncio.ensure_future(answer, loop=self._loop)
        try:
            return self._loop.run_until_complete(self._task)
        finally:
            self._task = None

    def _encoded(self, value: Any) -> bytes:
        if value is None:
            return b""
        try:
            result = encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise Unusable("fatal", f"the return value is not JSON: {error}") from None
        if len(result) > self._settings["max_result"]:
            raise Unusable("fatal", self._settings["too_large"])
        return result

    def _failed(self, error: BaseException) -> list[Any]:
        self._last = self._last or self._function is None or isinstance(error, MemoryError)
        if isinstance(error, Unusable):
            return [error.args[0], plain(error.args[1])]
        ours = sys.modules.get("jobqueued")
        try:
            if isinstance(error, getattr(ours, "Retry", ())):
                after = getattr(error, "after", None)
                after = None if after is None else round(after * 1000)
                return ["failed", plain(str(error)) or "asked to be run again", after]
            write_traceback(error)
            if isinstance(error, getattr(ours, "Fatal", ())):
                return ["fatal", plain(str(error)) or "Fatal"]
            return ["failed", plain(summary(error))]
        except Exception:
            return ["failed", type(error).__name__]

    def _has_grown_too_much(self) -> bool:
        memory = self._settings["memory"]
        if memory is None:
            return False
        with open("/proc/self/statm", "rb") as file:
            size = int(file.read().split()[1]) * resource.getpagesize()
        self._first_size = self._first_size or size
        return bool(size > max(0.75 * memory, 1.25 * self._first_size))

    def _told_to_stop(self, number: int, frame: Any) -> None:
        self._stopping = True
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        elif self._calling:
            raise Stopped(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        else:
            end_by_sigterm()

    def _forked(self) -> None:
        self._channel.forget()
        if signal.getsignal(signal.SIGTERM) == self._told_to_stop:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def load(module: str, name: str) -> tuple[Callable[..., Any], bool]:
    """The function, its module imported, and whether it takes the context."""
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        write_traceback(error)
        text = f"cannot import {module!r}: {summary(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            text += "; check `python_path` and `interpreter`"
        raise Unusable("failed", text) from None
    for part in name.split("."):
        if not hasattr(found, part):
            place = getattr(sys.modules[module], "__file__", None) or "built in"
            raise Unusable("fatal", f"module {module!r} ({place}) has no function {name!r}")
        found = getattr(found, part)
    if not callable(found):
        raise Unusable("fatal", f"{module}:{name} is no function but {type(found).__name__}")
    return found, takes_context(found, f"{module}:{name}")


def takes_context(function: Callable[..., Any], name: str) -> bool:
    """Whether there is a second argument to give."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    named = [one for one in signature.parameters.values() if one.kind <= one.POSITIONAL_OR_KEYWORD]
    wanted = 2 if len(named) > 1 else 1
    try:
        signature.bind(*range(wanted))
    except TypeError as error:
        raise Unusable("fatal", f"{name} cannot be called with a payload: {error}") from None
    return wanted == 2


def summary(error: BaseException) -> str:
    """The last line of a traceback, and the place where it happened."""
    told = report(error)
    lines = told.format_exception_only()
    text = next(lines).strip() if not isinstance(error, SyntaxError) else f"SyntaxError: {error}"
    for frame in told.stack[-1:]:
        text += f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    return text


def report(error: BaseException) -> traceback.TracebackException:
    """What happened, from where the application begins, and without this file."""
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    frames = [frame for frame in told.stack if frame.filename != OWN_FILE]
    while frames and os.path.basename(os.path.dirname(frames[0].filename)) in MACHINERY:
        del frames[0]
    told.stack[:] = frames
    return told


def flush() -> bool:
    """Send on what Python holds back of the output; whether all of it leads to the log still."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
        return os.fstat(1)[1:3] == os.fstat(2)[1:3]
    return False


def write_traceback(error: BaseException) -> None:
    """Put it into the log of the job, whatever has become of `sys.stderr`."""
    flush()
    data = "".join(report(error).format()).encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


def plain(text: str) -> str:
    """Text that can travel: bounded, and without halves of characters."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


def usage() -> tuple[float, int]:
    """CPU seconds of this process and of those it waited for; the most memory it had, in bytes."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(own[:2]) + sum(others[:2]), own.ru_maxrss * 1024


def end_by_sigterm() -> NoReturn:
    """End as any program does that gets this signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(143)


def close_loop(loop: Any) -> None:
    """Let what still runs in the loop tidy up."""
    import asyncio

    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def prepare_c_library() -> Callable[[], object]:
    """Die with the launcher, and return what sends on the output that C code holds back."""
    try:
        import ctypes
    except ImportError:
        return bool
    library = ctypes.CDLL(None)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return functools.partial(library.fflush, ctypes.c_void_p.in_dll(library, "stdout"))


def offer_errors(source: bytes) -> None:
    """Make `from jobqueued import Retry, Fatal` work where the package is not installed."""
    found = importlib.util.find_spec("jobqueued")
    if found is None or found.origin is None:
        sys.modules["jobqueued"] = module = ModuleType("jobqueued")
        exec(compile(source, OWN_FILE, "exec"), module.__dict__)


def main() -> None:
    """Become the child process that the first message describes, and work."""
    # The daemon is at standard input and output, the log of the job at standard error.
    channel = Channel(os.dup(0), os.dup(1))
    os.dup2(2, 1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    described, errors = channel.receive() or sys.exit()
    settings = json.loads(described)
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    sys.path[:0] = settings["path"]
    offer_errors(errors)
    Runner(channel, settings, prepare_c_library()).serve()
