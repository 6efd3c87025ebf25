"""Functions that run jobs: asynchronous ones in the event loop, plain ones in threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any

from jobqueued.worker.context import Context, Stopped

Function = Callable[..., Any]
Task = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Handler:
    """A function, and how it wants to be called."""

    def __init__(self, name: str, function: Function, threads: Threads) -> None:
        self._function = function
        self._threads = threads
        self._is_async = _is_async(function)
        self._wants_context = _wants_context(name, function)

    @property
    def needs_context(self) -> bool:
        """Whether it takes a second argument."""
        return self._wants_context

    async def call(self, payload: Any, context: Context | None, check: Callable[[], None]) -> Any:
        """What the function returns; `check` is the last thing done before it begins."""
        arguments = (payload,) if context is None else (payload, context)

        def begin() -> Any:
            check()
            return self._function(*arguments)

        if self._is_async:
            return await begin()
        answer = await self._threads.run(begin)
        return await answer if isinstance(answer, Awaitable) else answer


class Threads:
    """At most so many threads, started when needed; none of them keeps the process alive."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._idle = 0
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._called: set[asyncio.Future[Any]] = set()

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call a function in a thread; one that was started is never left alone."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()
        self._called.add(ended)
        self._tasks.put((loop, ended, function))
        self._idle -= 1
        if self._idle < 0 and self._count < self._most:
            self._start()
        try:
            return await _until_done(ended)
        finally:
            self._idle += 1
            self._called.discard(ended)

    def close(self) -> None:
        """Wait for no thread any more; each ends when its function returns."""
        for ended in list(self._called):
            _settle(ended, None, Stopped("the worker does not wait any more"))
        for _ in range(self._count):
            self._tasks.put(None)

    def _start(self) -> None:
        self._count += 1
        self._idle += 1
        name = f"jobqueued-worker-{self._count}"
        threading.Thread(target=_serve, args=(self._tasks,), name=name, daemon=True).start()


async def _until_done(ended: asyncio.Future[Any]) -> Any:
    """A thread cannot be cancelled: wait for it, then pass the cancellation on."""
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        ended.exception()
        raise cancelled
    return ended.result()


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    while task := tasks.get():
        loop, ended, function = task
        try:
            value, error = function(), None
        except BaseException as raised:
            value, error = None, raised
        try:
            loop.call_soon_threadsafe(_settle, ended, value, error)
        except RuntimeError:
            return  # The loop is closed: nobody waits any more.


def _settle(ended: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(value)
    elif isinstance(error, StopIteration):
        # A future does not take one.
        ended.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        ended.set_exception(error)


def _is_async(function: Function) -> bool:
    inner = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner)


def _wants_context(name: str, function: Function) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    positional = [kind for kind in kinds if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    wanted = 2 if len(positional) > 1 else 1
    try:
        signature.bind(*range(wanted))
    except TypeError as error:
        raise TypeError(f"the handler of {name!r} cannot be called: {error}") from None
    return wanted == 2
