"""The engine as the rest sees it: builds the running parts, answers for them, stops them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import suppress

from jobqueued import __version__, clock
from jobqueued.config import Config
from jobqueued.engine.attempt import Attempts
from jobqueued.engine.breakers import Breakers
from jobqueued.engine.cancel import Canceller
from jobqueued.engine.controls import Controls, TypeState
from jobqueued.engine.dead import DeadLetters
from jobqueued.engine.dispatcher import Dispatcher
from jobqueued.engine.gates import Gates
from jobqueued.engine.intake import Intake
from jobqueued.engine.keeper import Keeper
from jobqueued.engine.keys import Keys
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.promoter import Promoter
from jobqueued.engine.reaper import Reaper
from jobqueued.engine.remote import Remote
from jobqueued.engine.retention import Retention
from jobqueued.engine.settle import Settler
from jobqueued.engine.why import Reasons
from jobqueued.engine.workers import Pool
from jobqueued.executors.interface import Executor, StopReason
from jobqueued.model.errors import Conflict, NotFound, StoreError
from jobqueued.model.ids import IdMaker
from jobqueued.model.job import Attempt, Batch, Claimed, Job, Progress, Status
from jobqueued.model.submission import (
    Beat,
    BeatAnswer,
    Cancelled,
    JobPage,
    JobQuery,
    Poll,
    Report,
    Submission,
    Submitted,
)
from jobqueued.store.interface import Store

_STUCK_SECONDS = 20.0


class Engine:
    """Everything a caller can ask for, in the words of the contract."""

    def __init__(self, config: Config, store: Store, executors: dict[str, Executor]) -> None:
        self.started_at = clock.now()
        self._began = clock.monotonic()
        self._started = False
        self.store = store
        self.shared = shared = Shared(config, store)
        self._intake = Intake(shared, IdMaker(store.last_place))
        self.dead_letters = DeadLetters(shared, self._intake)
        self._canceller = Canceller(shared)
        settler = Settler(shared)
        self._attempts = Attempts(shared, settler, executors)
        self.pools: dict[str, Pool] = {}
        self._fit_pools()
        self._executors = executors
        shared.gates = Gates(shared, self.pools, executors)
        shared.breakers = Breakers(shared)
        self.controls = Controls(shared)
        self.reasons = Reasons(shared, self.controls)
        shared.dispatcher = Dispatcher(shared, self.pools)
        shared.promoter = Promoter(shared)
        shared.keeper = Keeper(shared)
        shared.reaper = Reaper(shared, settler)
        shared.remote = Remote(shared, settler)
        shared.retention = Retention(shared)
        self.parts: tuple[Part, ...] = (
            shared.dispatcher,
            shared.promoter,
            shared.keeper,
            shared.reaper,
            shared.retention,
            Keys(shared),
        )

    @property
    def config(self) -> Config:
        return self.shared.config

    async def start(self) -> None:
        """Take up what was left, then run."""
        await self.shared.reaper.recover()
        for part in self.parts:
            part.start()
        self._started = True

    def drain(self) -> None:
        """Take no more submissions and claim no more jobs."""
        self.shared.draining = True
        self.shared.remote.dismiss()

    def reload(self, config: Config) -> None:
        """Go on under another configuration."""
        self.shared.config = config
        self._fit_pools()
        for executor in self._executors.values():
            executor.recycle()
        for part in self.parts:
            part.wake()

    def _fit_pools(self) -> None:
        for name, settings in self.config.pools.items():
            if name in self.pools:
                self.pools[name].resize(settings.workers)
            else:
                self.pools[name] = Pool(
                    name, settings.workers, self._attempts.run, self._attempts.settle
                )

    async def close(self) -> None:
        """Stop every part; nothing may be running any more."""
        for part in self.parts:
            await part.stop()
        for pool in self.pools.values():
            await pool.close()

    async def take_back(self) -> None:
        """The last word before the store closes: jobs that reached no worker run again."""
        with suppress(StoreError):
            await self.shared.remote.take_back()

    def submit(self, submission: Submission) -> Awaitable[Submitted]:
        return self._intake.submit(submission)

    async def submit_batch(
        self, submissions: Sequence[Submission], pace_per_second: float | None
    ) -> tuple[str, list[Submitted]]:
        return await self._intake.submit_batch(submissions, pace_per_second)

    async def job(self, job_id: str) -> Job:
        found = await self.store.job(job_id)
        if found is None:
            raise NotFound(f"there is no job {job_id}")
        return found

    async def wait(self, job_id: str, seconds: float) -> Job:
        """The job when it is terminal, or as it is when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._until_terminal(job_id)
        return await self.job(job_id)

    async def _until_terminal(self, job_id: str) -> Job:
        while True:
            change = self.shared.changes.next(job_id)
            try:
                job = await self.job(job_id)
                if job.is_terminal:
                    return job
                await change
            finally:
                change.cancel()

    async def jobs(self, query: JobQuery) -> JobPage:
        return await self.store.jobs(query)

    async def batch(self, batch_id: str) -> Batch:
        found = await self.store.batch(batch_id)
        if found is None:
            raise NotFound(f"there is no batch {batch_id}")
        return found

    async def cancel(self, job_id: str) -> Job:
        """A waiting job is cancelled at once, a running one is told to stop."""
        await self._canceller.cancel(job_id)
        return await self.job(job_id)

    async def cancel_some(self, query: JobQuery, *, dry_run: bool) -> Cancelled:
        """The jobs that fit, a bounded number in one call."""
        canceller = self._canceller
        return await (canceller.would_cancel if dry_run else canceller.cancel_some)(query)

    def boundary(self) -> str:
        """An id that comes after those of all jobs there are, and before all later ones."""
        return self._intake.boundary()

    async def run_now(self, job_id: str) -> Job:
        before = await self.store.run_now(job_id, clock.now())
        if before is None:
            raise NotFound(f"there is no job {job_id}")
        if before not in (Status.SCHEDULED, Status.RETRYING):
            raise Conflict(f"the job is {before}; only scheduled and retrying jobs can run now")
        self.shared.dispatcher.wake()
        self.shared.changes.notify(job_id)
        return await self.job(job_id)

    async def attempts(self, job_id: str) -> list[Attempt]:
        job = await self.job(job_id)
        finished = await self.store.attempts(job_id)
        if job.status is Status.PROCESSING and len(finished) < job.attempt:
            finished.append(_under_way(job))
        return finished

    async def log(self, job_id: str, attempt: int | None) -> bytes:
        job = await self.job(job_id)
        number = job.attempt if attempt is None else attempt
        if attempt is not None and not 1 <= attempt <= job.attempt:
            raise NotFound(f"job {job_id} has no attempt {attempt}, it has had {job.attempt}")
        running = self.shared.running.by_job(job_id)
        if running is not None and running.claimed.lease.attempt == number:
            return running.task.output.snapshot()
        return await self.store.log(job_id, number) or b""

    async def follow_log(self, job_id: str, attempt: int | None) -> AsyncIterator[bytes]:
        """Output from the latest (or given) attempt on, to the end of the job (or attempt)."""
        job = await self.job(job_id)
        number = max(1, job.attempt) if attempt is None else attempt
        while True:
            change = self.shared.changes.next(job_id)
            try:
                job = await self.job(job_id)
                while number <= job.attempt and not self._about_to_start(job, number):
                    async for piece in self._output(job_id, number):
                        yield piece
                    if attempt is not None:
                        return
                    number += 1
                if job.is_terminal:
                    return
                await change
            finally:
                change.cancel()

    def _about_to_start(self, job: Job, attempt: int) -> bool:
        """A claim is on disk a moment before its attempt begins."""
        under_way = job.status is Status.PROCESSING and job.attempt == attempt
        return under_way and self.shared.running.by_job(job.id) is None

    async def _output(self, job_id: str, attempt: int) -> AsyncIterator[bytes]:
        running = self.shared.running.by_job(job_id)
        if running is not None and running.claimed.lease.attempt == attempt:
            async for piece in running.task.output.follow():
                yield piece
        else:
            yield await self.log(job_id, attempt)

    async def lease(self, poll: Poll) -> list[Claimed]:
        """Jobs for a remote worker."""
        return await self.shared.remote.lease(poll)

    def lease_left(self, token: str) -> float:
        """For how many seconds the lease of a job elsewhere still runs."""
        return (self.shared.deadlines.left(token) or 0) / 1000

    def hand_back(self, jobs: Sequence[Claimed]) -> None:
        """Jobs that were leased to a worker that is gone."""
        self.shared.remote.hand_back(jobs)

    async def report(self, reports: Sequence[Report]) -> list[bool]:
        """Outcomes from remote workers; False where the lease was lost."""
        return await self.shared.remote.report(reports)

    async def heartbeat(self, beats: Sequence[Beat]) -> list[BeatAnswer]:
        """Signs of life, in order, from handlers here and from workers elsewhere."""
        running = self.shared.running
        here = [beat for beat in beats if running.by_token(beat.token)]
        there = [beat for beat in beats if not running.by_token(beat.token)]
        answers = [await self._beat(beat) for beat in here]
        answers += await self.shared.remote.heartbeat(there) if there else []
        by_token = {answer.token: answer for answer in answers}
        return [by_token[beat.token] for beat in beats]

    async def _beat(self, beat: Beat) -> BeatAnswer:
        running = self.shared.running.by_token(beat.token)
        if running is None:
            return BeatAnswer(beat.token, "stale", None)
        if beat.percent is not None:
            progress = Progress(beat.percent, beat.message)
            if not await self.store.report_progress(running.claimed.lease, progress):
                return BeatAnswer(beat.token, "stale", None)
        stopping = running.task.stop.reason is StopReason.CANCELLED
        until = running.lease_expires_at
        length = max(0, until - clock.now())
        return BeatAnswer(beat.token, "cancelled" if stopping else "ok", until, length)

    def note_progress(self, token: str, percent: float, message: str | None) -> None:
        """What a handler of this process says, put on disk soon."""
        running = self.shared.running.by_token(token)
        if running is not None:
            running.progress = Progress(percent, message)
            self.shared.keeper.wake()

    def extend_attempt(self, token: str, milliseconds: int) -> None:
        """A handler of this process asks for more time."""
        running = self.shared.running.by_token(token)
        if running is not None:
            self._attempts.extend(running, milliseconds)

    def unready_reasons(self) -> list[str]:
        reasons = []
        if not self._started:
            reasons.append("starting")
        if self.shared.draining:
            reasons.append("shutting down")
        if self.store.failed.done():
            reasons.append("the store has failed")
        elif self.store.disk_full:
            reasons.append("the disk is full")
        elif self.store.locked:
            reasons.append("another program holds the database for writing")
        return reasons

    def is_making_progress(self) -> bool:
        """Whether dispatcher and writer finish what they begin; feeds the watchdog."""
        began = (self.shared.dispatcher.busy_since, self.store.busy_since)
        now = clock.monotonic()
        return all(moment is None or now - moment < _STUCK_SECONDS for moment in began)

    async def stats(self) -> dict[str, object]:
        """What `jobqueued status` shows."""
        now = clock.now()
        counts = self.store.counts
        oldest = await self.store.oldest_pending()
        meter = self.shared.meter
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": clock.rfc3339(self.started_at),
            "uptime_seconds": int(clock.monotonic() - self._began),
            "ready": not self.unready_reasons(),
            "reasons": self.unready_reasons(),
            "draining": self.shared.draining,
            "counts": {status: counts.by_status().get(status, 0) for status in Status},
            "types": {state.name: self._figures(state) for state in self.controls.all()},
            "pools": {
                name: {"workers": pool.workers, "busy": pool.busy}
                for name, pool in self.pools.items()
            },
            "remote": {"waiting": len(self.shared.remote)},
            "dlq_depth": counts.by_status().get("dead", 0),
            "oldest_pending_seconds": None if oldest is None else max(0, now - oldest) / 1000,
            "rates": {name: meter.per_second(name) for name in ("submitted", "completed", "dead")},
            "totals": dict(meter.totals),
            "errors": {part.name: part.errors for part in self.parts},
            "store": self.store.figures() | await self.shared.retention.figures(),
        }

    def _figures(self, state: TypeState) -> dict[str, object]:
        resting = None
        if state.job_type is not None:
            resting = self.shared.gates.resting_until(state.job_type)
        return {
            "counts": state.counts,
            "paused": state.control.paused_at is not None,
            "breaker": state.breaker,
            "resting_until": None if resting is None else clock.rfc3339(resting),
        }


def _under_way(job: Job) -> Attempt:
    return Attempt(
        number=job.attempt,
        worker=job.worker,
        started_at=job.started_at or job.created_at,
        finished_at=None,
        outcome=None,
        error=None,
        exit_code=None,
        http_status=None,
        max_rss_bytes=None,
        cpu_ms=None,
    )
