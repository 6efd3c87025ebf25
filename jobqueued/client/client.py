"""The asynchronous client: submit, look, wait, act."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

from jobqueued.client import calls
from jobqueued.client.address import Address, default_key, places
from jobqueued.client.calls import Call, Filters, NewJob, Options, ReplayOptions
from jobqueued.client.chunks import Chunks
from jobqueued.client.errors import ClientError, Problem
from jobqueued.client.link import Link
from jobqueued.client.models import (
    Attempt,
    Batch,
    Change,
    DeadJob,
    Job,
    NewBatch,
    Replayed,
    Type,
    TypeWhy,
    Why,
)
from jobqueued.client.patience import LEAST_ASK, PATIENCE, Patience

T = TypeVar("T")

CONNECTIONS = 100


class Client:
    """A daemon to talk to, from one event loop; close it when done, or use `async with`.

    Without `url` it follows $JOBQUEUED_URL, then the usual places; without `key`
    $JOBQUEUED_KEY. A daemon that is away, full or restarting is asked again for up to
    `patience` seconds. Submissions always carry an idempotency key, so none is made twice.
    """

    def __init__(
        self,
        url: str | Sequence[Address] | None = None,
        *,
        key: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._link = Link(places(url), default_key() if key is None else key, CONNECTIONS)
        self._patience = patience

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._link.close()

    async def submit(
        self, type: str, payload: Any = None, *, wait: float = 0.0, **options: Unpack[Options]
    ) -> Job:
        """Submit a job; with `wait` the answer comes when it is terminal or the time is up."""
        began = time.monotonic()
        keyed = calls.with_key({"type": type, "payload": payload, **options})
        job = await self._do(calls.submit(keyed, wait))
        left = wait - (time.monotonic() - began)
        return job if left <= 0 or job.is_terminal else await self.wait(job.id, left)

    async def submit_batch(
        self, jobs: Iterable[NewJob], *, pace_per_second: float | None = None
    ) -> NewBatch:
        """Submit one batch, all or nothing; so many jobs become due each second."""
        keyed = [calls.with_key(job) for job in jobs]
        return await self._do(calls.submit_batch(keyed, pace_per_second))

    async def submit_many(
        self,
        jobs: Iterable[NewJob] | AsyncIterable[NewJob],
        *,
        pace_per_second: float | None = None,
    ) -> list[str]:
        """Submit any number of jobs, in batches as they come; the ids, in order.

        A refusal names the job by its number; those of the batches before it are submitted.
        """
        chunks = Chunks(pace_per_second)
        if isinstance(jobs, AsyncIterable):
            async for job in jobs:
                if chunks.add(job):
                    await self._send(chunks)
        else:
            for job in jobs:
                if chunks.add(job):
                    await self._send(chunks)
        await self._send(chunks)
        return chunks.ids

    async def get(self, job_id: str) -> Job:
        """The job as it is now."""
        return await self._do(calls.get(job_id))

    async def wait(self, job_id: str, timeout: float | None = None) -> Job:  # noqa: ASYNC109
        """The job when it is terminal, or as it is when the time is up."""
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            asked = time.monotonic()
            job = await self._do(calls.get(job_id, max(0.0, deadline - asked)))
            now = time.monotonic()
            if job.is_terminal or now >= deadline:
                return job
            # A daemon that shuts down answers at once; it must not be asked in a tight loop.
            await asyncio.sleep(min(max(0.0, asked + LEAST_ASK - now), deadline - now))

    async def jobs(self, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Every job that fits, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = await self._do(calls.jobs(filters, cursor))
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job: a waiting one at once, a running one by stopping its handler."""
        return await self._do(calls.act(job_id, "cancel"))

    async def run(self, job_id: str) -> Job:
        """Run a scheduled or retrying job now."""
        return await self._do(calls.act(job_id, "run"))

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Every attempt of a job, first to last."""
        return (await self._do(calls.history(job_id))).attempts

    async def changes(self, job_id: str) -> list[Change]:
        """What people did to a job, first to last."""
        return (await self._do(calls.history(job_id))).changes

    async def dead_jobs(self, type: str | None = None) -> AsyncIterator[Job]:
        """Every dead job, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = await self._do(calls.dead_jobs(type, cursor))
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def dead_job(self, job_id: str) -> DeadJob:
        """One dead job with its attempts and what people did to it."""
        return await self._do(calls.dead_job(job_id))

    async def replay(
        self, job_id: str, payload: Any = None, *, note: str | None = None, confirm: bool = False
    ) -> Job:
        """Run a dead job again with fresh attempts, with another payload where one is given."""
        fields = {"payload": payload, "note": note, "confirm": confirm}
        return await self._do(calls.replay(job_id, fields))

    async def replay_many(self, type: str, **options: Unpack[ReplayOptions]) -> Replayed:
        """Run dead jobs of a type again, oldest first: at most 1000 a call, see `more`."""
        return await self._do(calls.replay_many({"type": type, **options}))

    async def discard(self, job_id: str, note: str) -> Job:
        """Give a dead job up; the note says why."""
        return await self._do(calls.discard(job_id, note))

    async def logs(
        self, job_id: str, *, attempt: int | None = None, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """The output of a job, in pieces; with `follow` until the job ends."""
        patience = Patience(self._patience, repeatable=True)
        path = calls.logs(job_id, attempt, follow).path
        begun = False
        while True:
            try:
                async for piece in self._link.stream(path):
                    begun = True
                    yield piece
                return
            except ClientError as error:
                if begun:
                    raise
                await asyncio.sleep(patience.pause_after(error))

    async def batch(self, batch_id: str) -> Batch:
        """How far the jobs of a batch are."""
        return await self._do(calls.batch(batch_id))

    async def types(self) -> list[Type]:
        """Every job type: how it is set up, what holds it, how it is doing."""
        return await self._do(calls.types())

    async def why(self, job_id: str) -> Why:
        """Why a job is not running: every reason that holds now, and when it may start."""
        return await self._do(calls.why(job_id))

    async def why_type(self, type: str) -> TypeWhy:
        """What holds a type, and its waiting jobs by what they wait for."""
        return await self._do(calls.why_type(type))

    async def pause(self, type: str, note: str | None = None) -> Type:
        """Start no more jobs of a type, until it is resumed; what runs may finish."""
        return await self._do(calls.pause(type, note))

    async def resume(self, type: str) -> Type:
        """Start jobs of a type again."""
        return await self._do(calls.resume(type))

    async def stats(self) -> dict[str, Any]:
        """What the daemon is doing."""
        return await self._do(calls.stats())

    async def _send(self, chunks: Chunks) -> None:
        while chunk := chunks.take():
            try:
                batch = await self._do(calls.submit_batch(chunk, chunks.pace_per_second))
            except Problem as problem:
                chunks.refused(problem)
            else:
                chunks.accepted(batch)

    async def _do(self, call: Call[T]) -> T:
        patience = Patience(self._patience, call.repeatable)
        while True:
            try:
                body = await self._link.exchange(call.method, call.path, call.body, call.wait)
                return call.read(body)
            except ClientError as error:
                await asyncio.sleep(patience.pause_after(error))
