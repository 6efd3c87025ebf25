"""Outcomes on their way to the daemon: what ended in the meantime goes in one call."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

import msgspec

from jobqueued.client.calls import reader
from jobqueued.client.errors import ClientError, Problem
from jobqueued.client.link import Link
from jobqueued.client.models import LeaseStates
from jobqueued.client.patience import Backoff
from jobqueued.worker.held import Held
from jobqueued.worker.report import Report, fatal

MOST = 1000
"""Outcomes in one call."""
MOST_BYTES = 1024 * 1024
WRONG = (400, 413)
"""Answers to an outcome that will never be taken."""
FULL = 2000
"""With so many outcomes unsent no more jobs are taken on."""

log = logging.getLogger("jobqueued.worker")
_encode = msgspec.json.Encoder().encode
_read = reader(LeaseStates)


class Outbox:
    """Sends outcomes until the daemon has them, for as long as their leases are in `held`.

    `changed` is set when there is room for more.
    """

    def __init__(self, link: Link, held: dict[str, Held], changed: asyncio.Event) -> None:
        self._link = link
        self._held = held
        self._changed = changed
        self._waiting: deque[Held] = deque()
        self._some = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._backoff = Backoff()

    @property
    def is_full(self) -> bool:
        """Whether the daemon takes outcomes too slowly."""
        return len(self._waiting) >= FULL

    def put(self, held: Held) -> None:
        """Send the outcome of this attempt."""
        self._waiting.append(held)
        self._some.set()
        self._empty.clear()

    async def wait_until_empty(self) -> None:
        """Wait until every outcome was taken or its lease is lost."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._some.wait()
            batch = self._next_batch()
            if batch:
                await self._deliver(batch)
            self._changed.set()
            if not self._waiting:
                self._some.clear()
                self._empty.set()

    def _next_batch(self) -> list[Held]:
        """As many as fit into one call; those whose lease is lost meanwhile are left out."""
        batch: list[Held] = []
        size = 0
        for held in self._waiting:
            if held.report is None or self._held.get(held.token) is not held:
                continue
            size += len(bytes(held.report.result or b"")) + len(held.report.error or "")
            if batch and (size > MOST_BYTES or len(batch) == MOST):
                break
            batch.append(held)
        if not batch:
            self._waiting.clear()
        return batch

    async def _deliver(self, batch: list[Held]) -> None:
        try:
            await self._send(batch)
        except ClientError as error:
            pause = self._backoff.after(error)
            log.warning("%d outcomes not sent, again in %.1f s: %s", len(batch), pause, error)
            await asyncio.sleep(pause)
        else:
            self._backoff.reset()

    async def _send(self, batch: list[Held]) -> None:
        reports = [held.report for held in batch]
        body = _encode({"leases": reports})
        try:
            answer = _read(await self._link.exchange("POST", "/leases/settle", body, 0.0))
        except Problem as problem:
            if problem.status not in WRONG:
                raise
            await self._send_apart(batch, problem)
        else:
            self._taken(batch, answer)

    async def _send_apart(self, batch: list[Held], problem: Problem) -> None:
        """One bad outcome must not hold up the others: halve until it is alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
            return
        (held,) = batch
        log.error("the outcome of job %s was refused: %s", held.job.id, problem)
        if _is_bare(held.report):
            self._forget(held)
        else:
            held.report = fatal(held.token, f"the outcome was refused: {problem.detail}")

    def _taken(self, batch: list[Held], answer: LeaseStates) -> None:
        for held, state in zip(batch, answer.leases, strict=True):
            if state.status != "ok":
                log.warning(
                    "the outcome of job %s attempt %d came too late", held.job.id, held.job.attempt
                )
            self._forget(held)

    def _forget(self, held: Held) -> None:
        self._held.pop(held.token, None)
        if self._waiting and self._waiting[0] is held:
            self._waiting.popleft()
        else:
            self._waiting.remove(held)


def _is_bare(report: Report | None) -> bool:
    return report is not None and report.outcome == "fatal" and report.result is None
