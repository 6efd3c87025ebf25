"""The remote worker: leases jobs, runs them, reports what became of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import uvloop

from jobqueued import clock
from jobqueued.client.address import Address, default_key, places
from jobqueued.client.calls import reader
from jobqueued.client.errors import ClientError
from jobqueued.client.link import Link
from jobqueued.client.models import LeasedJobs
from jobqueued.client.patience import Backoff, may_pass
from jobqueued.worker import report
from jobqueued.worker.context import Context, Stopped
from jobqueued.worker.handlers import Handler, Threads
from jobqueued.worker.held import Held, StopReason, TooLate, take
from jobqueued.worker.outbox import Outbox
from jobqueued.worker.pulse import Pulse

WAIT_SECONDS = 30.0
MOST = 1000
"""Jobs in one call."""
LEAST_POLL = 0.1
"""Seconds; an empty answer that came sooner is followed by a pause."""
HANG_UP_SECONDS = 2.0
GRACE_SECONDS = 10.0
FLUSH_SECONDS = 10.0

log = logging.getLogger("jobqueued.worker")
_read_jobs = reader(LeasedJobs)


class Worker:
    """Runs the jobs of some types: `Worker(url, {"transcode": transcode}).run()`.

    Handlers are async functions, or plain ones, which run in threads. They get the payload, and a
    `Context` where they take a second argument. Up to `concurrency` of them run at a time. Each job
    is leased for `lease` seconds (left out, the type's own) and the lease renewed while it runs.
    """

    def __init__(
        self,
        url: str | Sequence[Address] | None,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        concurrency: int = 10,
        lease: float | None = None,
        drain: float = 30.0,
        key: str | None = None,
        name: str | None = None,
    ) -> None:
        if concurrency < 1 or not handlers:
            raise ValueError("a worker needs at least one handler and a concurrency of 1 or more")
        self._concurrency = concurrency
        self._lease = lease
        self._drain = drain
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._threads = Threads(concurrency)
        self._handlers = {
            kind: Handler(kind, function, self._threads) for kind, function in handlers.items()
        }
        key = default_key() if key is None else key
        self._polls, self._calls = (Link(places(url), key, connections=2) for _ in range(2))
        self._held: dict[str, Held] = {}
        self._change = asyncio.Event()
        self._pulse = Pulse(self._calls, self._held, lease)
        self._outbox = Outbox(self._calls, self._held, self._change)
        self._running: set[Held] = set()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return len(self._running)

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; a second one cuts the wait for running jobs short."""
        uvloop.run(self.serve_until_signal())

    async def serve_until_signal(self) -> None:
        """Work in this event loop until SIGTERM or SIGINT."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        await self.serve()

    async def serve(self) -> None:
        """Work in this event loop until `stop` is called; raises what makes work impossible."""
        parts = [_spawn(self._lease_jobs()), _spawn(self._pulse.run()), _spawn(self._outbox.run())]
        stopping = _spawn(self._stopping.wait())
        try:
            await asyncio.wait([*parts, stopping], return_when=asyncio.FIRST_COMPLETED)
            await self._end(parts[0])
        finally:
            self._threads.close()
            await _end_tasks([*parts, stopping, *self._tasks()])
            await self._polls.close()
            await self._calls.close()
        for part in parts:
            if not part.cancelled():
                part.result()

    def stop(self) -> None:
        """Take no more jobs, let running ones end within `drain` seconds, hand back the rest."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._change.set()

    async def _lease_jobs(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            free = self._concurrency - len(self._running)
            if free < 1 or self._outbox.is_full:
                self._change.clear()
                await self._change.wait()
                continue
            try:
                jobs = await self._poll(min(free, MOST))
            except ClientError as error:
                await self._not_answered(error, backoff)
            else:
                backoff.reset()
                self._start(jobs)

    async def _poll(self, most: int) -> list[Held]:
        wish = {"types": list(self._handlers), "max": most, "worker": self._name}
        wish |= {"wait_seconds": WAIT_SECONDS, "lease_seconds": self._lease}
        asked_at = clock.monotonic()
        body = msgspec.json.encode(wish)
        answer = await self._polls.exchange("POST", "/leases", body, WAIT_SECONDS)
        jobs, now = _read_jobs(answer).jobs, clock.monotonic()
        if not jobs and now - asked_at < LEAST_POLL:
            await self._pause(LEAST_POLL)
        return [take(job, asked_at, now) for job in jobs]

    async def _not_answered(self, error: ClientError, backoff: Backoff) -> None:
        if self._stopping.is_set():
            return
        if not may_pass(error, repeatable=True):
            raise error
        pause = backoff.after(error)
        log.warning("no jobs to be had, asking again in %.1f s: %s", pause, error)
        await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _start(self, jobs: list[Held]) -> None:
        for held in jobs:
            self._held[held.token] = held
            self._running.add(held)
            self._pulse.added(held)
            held.task = asyncio.create_task(self._perform(held))

    async def _perform(self, held: Held) -> None:
        outcome: report.Report | None
        try:
            outcome = await self._outcome(held)
        except BaseException as error:
            if held.stopped is None and _is_cancelled(error):
                raise
            outcome = _ended_early(held, error)
        finally:
            self._running.discard(held)
            self._change.set()
        if outcome is None:
            # What became of it, its daemon decides: it is lost, or took too long.
            self._held.pop(held.token, None)
        else:
            self._settle(held, outcome)

    async def _outcome(self, held: Held) -> report.Report:
        handler = self._handlers[held.job.type]
        held.is_begun = True
        try:
            payload = held.job.payload
        except (ValueError, RecursionError) as error:
            return report.fatal(held.token, f"this Python cannot read the payload: {error}")
        context = self._context(held, payload) if handler.needs_context else None
        return report.completed(held.token, await handler.call(payload, context, held.check))

    def _context(self, held: Held, payload: Any) -> Context:
        loop = asyncio.get_running_loop()
        return Context(
            held, payload, str(self._calls.addresses[0]),
            lambda: loop.call_soon_threadsafe(self._pulse.wake),
        )  # fmt: skip

    def _settle(self, held: Held, outcome: report.Report) -> None:
        if self._held.get(held.token) is held and held.report is None:
            held.report = outcome
            self._outbox.put(held)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [held.task for held in self._running if held.task is not None]

    async def _end(self, leasing: asyncio.Task[None]) -> None:
        """Take no more, wait for what runs, hand back the rest, send the last outcomes."""
        self._stopping.set()
        self._change.set()
        self._polls.finish_sending()
        await asyncio.wait([leasing], timeout=HANG_UP_SECONDS)
        leasing.cancel()
        await asyncio.wait([leasing])
        await self._wait_for_running(self._drain)
        for held in list(self._running):
            held.stop(StopReason.INTERRUPTED)
        await self._wait_for_running(GRACE_SECONDS)
        for held in list(self._running):
            self._settle(held, _interrupted(held))
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._outbox.wait_until_empty()

    async def _wait_for_running(self, seconds: float) -> None:
        if not self._running:
            return
        ended = _spawn(_all_done(self._tasks()))
        hurry = _spawn(self._hurry.wait())
        await asyncio.wait([ended, hurry], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await _end_tasks([ended, hurry])


def _interrupted(held: Held) -> report.Report:
    """Stopped by us: it runs again, which is no failure, unless it is to be cancelled."""
    return report.released(held.token, f"stopped: {held.stopped}")


def _ended_early(held: Held, error: BaseException) -> report.Report | None:
    """A failure, or what was not begun or was stopped; None when it was lost as it ran."""
    if isinstance(error, TooLate):
        return _interrupted(held)
    if held.stopped is None or not isinstance(error, asyncio.CancelledError | Stopped):
        return report.failed(held.token, error)
    return None if held.stopped is StopReason.LOST else _interrupted(held)


def _is_cancelled(error: BaseException) -> bool:
    """Whether this task is being cancelled, not only something its handler waited for."""
    task = asyncio.current_task()
    is_cancel = isinstance(error, asyncio.CancelledError)
    return is_cancel and task is not None and task.cancelling() > 0


def _spawn(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(work)


async def _all_done(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _end_tasks(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=GRACE_SECONDS)
