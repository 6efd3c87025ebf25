"""The blocking client: the same calls for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, Unpack

from jobqueued.client import calls
from jobqueued.client.address import Address, default_key, places
from jobqueued.client.calls import Call, Filters, NewJob, Options, ReplayOptions
from jobqueued.client.chunks import Chunks
from jobqueued.client.daemon import Daemon
from jobqueued.client.errors import ClientError, Problem
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


class BlockingClient:
    """A daemon to talk to; everything means the same as in `Client`.

    Every call has a connection of its own, so one client can serve any number of threads and
    goes on working on both sides of a fork.
    """

    def __init__(
        self,
        url: str | Sequence[Address] | None = None,
        *,
        key: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._daemon = Daemon(places(url), default_key() if key is None else key)
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing stays open between calls; this is here for symmetry with `Client`."""

    def submit(
        self, type: str, payload: Any = None, *, wait: float = 0.0, **options: Unpack[Options]
    ) -> Job:
        """Submit a job; with `wait` the answer comes when it is terminal or the time is up."""
        began = time.monotonic()
        keyed = calls.with_key({"type": type, "payload": payload, **options})
        job = self._do(calls.submit(keyed, wait))
        left = wait - (time.monotonic() - began)
        return job if left <= 0 or job.is_terminal else self.wait(job.id, left)

    def submit_batch(
        self, jobs: Iterable[NewJob], *, pace_per_second: float | None = None
    ) -> NewBatch:
        """Submit one batch, all or nothing; so many jobs become due each second."""
        keyed = [calls.with_key(job) for job in jobs]
        return self._do(calls.submit_batch(keyed, pace_per_second))

    def submit_many(
        self, jobs: Iterable[NewJob], *, pace_per_second: float | None = None
    ) -> list[str]:
        """Submit any number of jobs, in batches as they come; the ids, in order."""
        chunks = Chunks(pace_per_second)
        for job in jobs:
            if chunks.add(job):
                self._send(chunks)
        self._send(chunks)
        return chunks.ids

    def get(self, job_id: str) -> Job:
        """The job as it is now."""
        return self._do(calls.get(job_id))

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """The job when it is terminal, or as it is when the time is up."""
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            asked = time.monotonic()
            job = self._do(calls.get(job_id, max(0.0, deadline - asked)))
            now = time.monotonic()
            if job.is_terminal or now >= deadline:
                return job
            # A daemon that shuts down answers at once; it must not be asked in a tight loop.
            time.sleep(min(max(0.0, asked + LEAST_ASK - now), deadline - now))

    def jobs(self, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Every job that fits, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = self._do(calls.jobs(filters, cursor))
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return

    def cancel(self, job_id: str) -> Job:
        """Cancel a job: a waiting one at once, a running one by stopping its handler."""
        return self._do(calls.act(job_id, "cancel"))

    def run(self, job_id: str) -> Job:
        """Run a scheduled or retrying job now."""
        return self._do(calls.act(job_id, "run"))

    def attempts(self, job_id: str) -> list[Attempt]:
        """Every attempt of a job, first to last."""
        return self._do(calls.history(job_id)).attempts

    def changes(self, job_id: str) -> list[Change]:
        """What people did to a job, first to last."""
        return self._do(calls.history(job_id)).changes

    def dead_jobs(self, type: str | None = None) -> Iterator[Job]:
        """Every dead job, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = self._do(calls.dead_jobs(type, cursor))
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return

    def dead_job(self, job_id: str) -> DeadJob:
        """One dead job with its attempts and what people did to it."""
        return self._do(calls.dead_job(job_id))

    def replay(
        self, job_id: str, payload: Any = None, *, note: str | None = None, confirm: bool = False
    ) -> Job:
        """Run a dead job again with fresh attempts, with another payload where one is given."""
        fields = {"payload": payload, "note": note, "confirm": confirm}
        return self._do(calls.replay(job_id, fields))

    def replay_many(self, type: str, **options: Unpack[ReplayOptions]) -> Replayed:
        """Run dead jobs of a type again, oldest first: at most 1000 a call, see `more`."""
        return self._do(calls.replay_many({"type": type, **options}))

    def discard(self, job_id: str, note: str) -> Job:
        """Give a dead job up; the note says why."""
        return self._do(calls.discard(job_id, note))

    def logs(
        self, job_id: str, *, attempt: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """The output of a job, in pieces; with `follow` until the job ends."""
        patience = Patience(self._patience, repeatable=True)
        path = calls.logs(job_id, attempt, follow).path
        begun = False
        while True:
            try:
                for piece in self._daemon.stream(path):
                    begun = True
                    yield piece
                return
            except ClientError as error:
                if begun:
                    raise
                time.sleep(patience.pause_after(error))

    def batch(self, batch_id: str) -> Batch:
        """How far the jobs of a batch are."""
        return self._do(calls.batch(batch_id))

    def types(self) -> list[Type]:
        """Every job type: how it is set up, what holds it, how it is doing."""
        return self._do(calls.types())

    def why(self, job_id: str) -> Why:
        """Why a job is not running: every reason that holds now, and when it may start."""
        return self._do(calls.why(job_id))

    def why_type(self, type: str) -> TypeWhy:
        """What holds a type, and its waiting jobs by what they wait for."""
        return self._do(calls.why_type(type))

    def pause(self, type: str, note: str | None = None) -> Type:
        """Start no more jobs of a type, until it is resumed; what runs may finish."""
        return self._do(calls.pause(type, note))

    def resume(self, type: str) -> Type:
        """Start jobs of a type again."""
        return self._do(calls.resume(type))

    def stats(self) -> dict[str, Any]:
        """What the daemon is doing."""
        return self._do(calls.stats())

    def _send(self, chunks: Chunks) -> None:
        while chunk := chunks.take():
            try:
                batch = self._do(calls.submit_batch(chunk, chunks.pace_per_second))
            except Problem as problem:
                chunks.refused(problem)
            else:
                chunks.accepted(batch)

    def _do(self, call: Call[T]) -> T:
        patience = Patience(self._patience, call.repeatable)
        while True:
            try:
                return call.read(self._ask(call))
            except ClientError as error:
                time.sleep(patience.pause_after(error))

    def _ask(self, call: Call[T]) -> bytes:
        if call.method == "GET":
            return self._daemon.get(call.path, wait=call.wait).body
        return self._daemon.post(call.path, call.body, wait=call.wait).body
