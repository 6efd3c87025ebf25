"""The only door in: every job enters here."""

from __future__ import annotations

from collections.abc import Sequence

from jobqueued import clock
from jobqueued.engine.parts import Shared
from jobqueued.model.errors import Draining, QueueFull, UnknownType
from jobqueued.model.ids import IdMaker
from jobqueued.model.job import Job, Status, first_status
from jobqueued.model.submission import Submission, Submitted

_RETRY_AFTER_SECONDS = 5


class Intake:
    """Fills in defaults, holds the queue to its depth, and answers when jobs are on disk."""

    def __init__(self, shared: Shared, ids: IdMaker) -> None:
        self._shared = shared
        self._ids = ids
        self._entering = 0
        """Jobs on their way to disk, not yet counted as waiting."""

    async def submit(self, submission: Submission) -> Submitted:
        now = clock.now()
        return (await self._enter([self._new_job(submission, now, None, 0)], None))[0]

    async def submit_batch(
        self, submissions: Sequence[Submission], pace_per_second: float | None
    ) -> tuple[str, list[Submitted]]:
        now = clock.now()
        batch_id = self._ids.make(now)
        step = 1000 / pace_per_second if pace_per_second else 0.0
        jobs = [
            self._new_job(submission, now, batch_id, int(number * step))
            for number, submission in enumerate(submissions)
        ]
        return batch_id, await self._enter(jobs, batch_id)

    def boundary(self) -> str:
        """An id that comes after those of all jobs there are, and before all later ones."""
        return self._ids.make(clock.now())

    async def _enter(self, jobs: list[Job], batch_id: str | None) -> list[Submitted]:
        self._check_open(len(jobs))
        self._entering += len(jobs)
        try:
            window = self._shared.config.queue.idempotency_window
            placed = await self._shared.store.submit(jobs, batch_id=batch_id, window=window)
        finally:
            self._entering -= len(jobs)
        self._announce(placed)
        return placed

    def room(self) -> int:
        """How many jobs there is room for; none is a refusal."""
        self._check_open(1)
        shared = self._shared
        return shared.config.queue.max_depth - shared.store.counts.waiting - self._entering

    def _check_open(self, number: int) -> None:
        shared = self._shared
        if shared.draining:
            raise Draining("the daemon is shutting down; submit again when it is back")
        limit = shared.config.queue.max_depth
        if shared.store.counts.waiting + self._entering + number > limit:
            raise QueueFull(
                f"{shared.store.counts.waiting} jobs are waiting, the limit is {limit} "
                "(queue.max_depth); submit again later",
                _RETRY_AFTER_SECONDS,
            )

    def _announce(self, placed: Sequence[Submitted]) -> None:
        shared = self._shared
        for submitted in placed:
            if submitted.replayed:
                continue
            job = submitted.job
            shared.meter.count("submitted")
            shared.recent.count(job.type, "submitted")
            if job.status is Status.PENDING:
                shared.dispatcher.wake()
            else:
                shared.promoter.wake_at(job.run_at)
            if job.expires_at is not None:
                shared.promoter.wake_at(job.expires_at)

    def _new_job(self, asked: Submission, now: int, batch_id: str | None, later: int) -> Job:
        job_type = self._shared.config.types.get(asked.type)
        if job_type is None:
            raise UnknownType(f"no job type {asked.type!r} is configured")
        run_at = max(now, asked.run_at or now) + (asked.delay or 0) + later
        expires_at = asked.expires_at
        if asked.expires_in is not None:
            expires_at = now + asked.expires_in
        return Job(
            id=self._ids.make(now),
            type=asked.type,
            status=first_status(now, run_at),
            payload=asked.payload,
            priority=job_type.priority if asked.priority is None else asked.priority,
            max_retries=job_type.max_retries if asked.max_retries is None else asked.max_retries,
            created_at=now,
            run_at=run_at,
            expires_at=expires_at,
            idempotency_key=asked.idempotency_key,
            correlation_id=asked.correlation_id,
            key=asked.key,
            batch_id=batch_id,
        )
