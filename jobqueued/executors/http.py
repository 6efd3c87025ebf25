"""Runs `http` handlers: the payload is posted to a receiver, whose answer is the outcome."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass

import msgspec
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from aiohttp.abc import AbstractResolver
from yarl import URL

from jobqueued import clock
from jobqueued.executors.exits import STOPPED, duration_text, outcome_before_start
from jobqueued.executors.hosts import Hosts
from jobqueued.executors.http_address import (
    BadAddress,
    address_of,
    origin_of,
    parse_address,
    shown,
)
from jobqueued.executors.http_answer import (
    RESTING,
    Answer,
    is_success,
    outcome_of_answer,
    record_of,
    wait_asked_for,
)
from jobqueued.executors.http_errors import connection_lost, error_text, is_forbidden
from jobqueued.executors.http_guard import Names
from jobqueued.executors.http_request import headers_of
from jobqueued.executors.http_session import BadTrustFile, Route, Sending, TrustStore, open_session
from jobqueued.executors.interface import Executor, StopReason, Task
from jobqueued.executors.shortage import Shortage, is_shortage
from jobqueued.model.job import MAX_RESULT
from jobqueued.model.job_type import Handler, HttpHandler
from jobqueued.model.outcome import Outcome, OutcomeKind

RESENDS = 2
REFUSAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt on its way to one address."""

    task: Task
    handler: HttpHandler
    url: URL


class HttpExecutor(Executor):
    """Posts payloads; `hosts` tells which receivers asked to be left alone for a while.

    `resolver` looks names up and is closed with the executor.
    """

    def __init__(self, hosts: Hosts | None = None, resolver: AbstractResolver | None = None):
        self.hosts = Hosts() if hosts is None else hosts
        self._names = Names() if resolver is None else resolver
        self._trust = TrustStore()
        self._sessions: dict[Route, ClientSession] = {}
        self._shortage = Shortage()

    def resting_until(self, handler: Handler) -> int | None:
        """Until when the one receiver of a handler wants no jobs; None when it takes them."""
        if (short := self._shortage.resting_until()) is not None:
            return short
        if not isinstance(handler, HttpHandler) or handler.url is None or not self.hosts.count:
            return None
        try:
            return self.hosts.resting_until(origin_of(parse_address(handler.url)))
        except BadAddress:
            return None

    async def run(self, task: Task) -> Outcome:
        """Send until there is an answer, or until stopped."""
        try:
            outcome = await self._attempt(task)
        finally:
            task.output.close()
        return msgspec.structs.replace(outcome, log=task.output.snapshot() or None)

    async def close(self) -> None:
        """Close every connection."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()
        await self._names.close()

    async def _attempt(self, task: Task) -> Outcome:
        if task.stop.reason is not None:
            return outcome_before_start(task.stop.reason, task.job_type.timeout)
        handler = _handler_of(task)
        try:
            delivery = Delivery(task, handler, address_of(handler, task.claimed.payload))
        except BadAddress as error:
            return _noted(task, Outcome(kind=OutcomeKind.FATAL, error=str(error)))
        resting = self.hosts.resting_until(origin_of(delivery.url))
        if resting is not None:
            return _noted(task, _put_off(delivery.url, resting))
        return await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> Outcome:
        task = delivery.task
        task.output.write(f"POST {shown(delivery.url)}\n".encode())
        try:
            async with asyncio.timeout(None) as limit:
                obey = asyncio.create_task(_expire_when_asked(task, limit))
                try:
                    return await self._answered(delivery)
                finally:
                    obey.cancel()
        except TimeoutError:
            return _noted(task, _stopped(delivery))

    async def _answered(self, delivery: Delivery) -> Outcome:
        began = clock.monotonic()
        try:
            answer = await self._send(delivery)
        except BadTrustFile as error:
            return _noted(delivery.task, Outcome(kind=OutcomeKind.FAILED, error=str(error)))
        except (ClientError, OSError) as error:
            if is_shortage(error):
                return _noted(delivery.task, self._shortage.outcome(f"cannot send: {error}"))
            kind = OutcomeKind.FATAL if is_forbidden(error) else OutcomeKind.FAILED
            text = error_text(error, delivery.url, delivery.handler)
            return _noted(delivery.task, Outcome(kind=kind, error=text))
        took = int((clock.monotonic() - began) * 1000)
        return self._outcome(delivery, answer, took)

    async def _send(self, delivery: Delivery) -> Answer:
        """A connection kept from an earlier job may be closed by now: then there is another try."""
        for _ in range(RESENDS):
            sending = Sending()
            try:
                return await self._post(delivery, sending)
            except ClientError as error:
                if not (sending.reused and connection_lost(error)):
                    raise
        return await self._post(delivery, Sending())

    async def _post(self, delivery: Delivery, sending: Sending) -> Answer:
        handler = delivery.handler
        request = self._session(handler).post(
            delivery.url,
            data=io.BytesIO(delivery.task.claimed.payload),
            headers=headers_of(delivery.task.claimed, handler, clock.now()),
            allow_redirects=False,
            ssl=await self._trust.context(handler.ca_file),
            timeout=ClientTimeout(total=None, connect=handler.connect_timeout / 1000),
            trace_request_ctx=sending,
        )
        async with request as response:
            return await _read(response)

    def _session(self, handler: HttpHandler) -> ClientSession:
        # Apart, so that no guarded job gets a connection made without the guard.
        route = _route_of(handler)
        if route not in self._sessions:
            self._sessions[route] = open_session(self._names, route)
        return self._sessions[route]

    def _outcome(self, delivery: Delivery, answer: Answer, took: int) -> Outcome:
        now = clock.now()
        outcome = outcome_of_answer(answer, now)
        text = f"{answer.line} after {duration_text(took)}\n{record_of(answer, outcome)}"
        delivery.task.output.write(text.encode())
        wait = wait_asked_for(answer, now)
        if answer.status in RESTING and wait is not None:
            longest = delivery.task.job_type.backoff.max
            self.hosts.rest(origin_of(delivery.url), wait, longest)
        return outcome


def _handler_of(task: Task) -> HttpHandler:
    handler = task.job_type.handler
    if not isinstance(handler, HttpHandler):
        raise TypeError(f"{task.job_type.name} is not a webhook")
    return handler


def _route_of(handler: HttpHandler) -> Route:
    if handler.url is not None:
        return Route.FIXED
    return Route.OPEN if handler.allow_private else Route.GUARDED


async def _expire_when_asked(task: Task, limit: asyncio.Timeout) -> None:
    await task.stop.asked.wait()
    limit.reschedule(asyncio.get_running_loop().time())


async def _read(response: ClientResponse) -> Answer:
    """Status and body; the body of a refusal is not waited for long."""
    body, broken = bytearray(), False
    patience = None if is_success(response.status) else REFUSAL_SECONDS
    try:
        async with asyncio.timeout(patience):
            await _read_body(response, body)
    except (ClientError, OSError):
        broken = True
    return Answer(
        status=response.status,
        reason=response.reason or "",
        retry_after=response.headers.get("Retry-After"),
        body=bytes(body[:MAX_RESULT]),
        too_large=len(body) > MAX_RESULT,
        broken=broken,
    )


async def _read_body(response: ClientResponse, body: bytearray) -> None:
    """Read to the end, or to where it can be no result any more."""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_RESULT:
            response.close()
            return


def _put_off(url: URL, until: int) -> Outcome:
    return Outcome(
        kind=OutcomeKind.INTERRUPTED,
        error=f"host {url.host_subcomponent} asked for a pause until {clock.rfc3339(until)}",
        retry_after_ms=max(1, until - clock.now()),
    )


def _stopped(delivery: Delivery) -> Outcome:
    reason = delivery.task.stop.reason or StopReason.TIMEOUT
    words = {
        StopReason.TIMEOUT: f"timed out after {duration_text(delivery.task.job_type.timeout)}",
        StopReason.CANCELLED: "cancelled",
        StopReason.INTERRUPTED: "interrupted by a shutdown",
    }
    error = f"{words[reason]}, waiting for {shown(delivery.url)}"
    return Outcome(kind=STOPPED[reason], error=error)


def _noted(task: Task, outcome: Outcome) -> Outcome:
    """The outcome, with its error as the last line of the job's log."""
    task.output.write(f"{outcome.error}\n".encode())
    return outcome
