"""Dead letters: another chance for jobs that failed for good, or the end of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

from jobqueued.engine.intake import Intake
from jobqueued.engine.parts import Shared
from jobqueued.model.change import Act, BulkReplay, BulkReplayed, Change, Found, Replay
from jobqueued.model.errors import ConfirmNeeded, KeyTaken, NotDead, NotFound, TypeGone
from jobqueued.model.job import Job, Status
from jobqueued.model.submission import JobPage, JobQuery

log = logging.getLogger("jobqueued.engine")

MOST_REPLAYED = 1000
"""Jobs one call replays at most."""
_AT_ONCE = 25
"""Jobs in one transaction, so that it never holds up the others for long."""


class DeadLetters:
    """Everything an operator does with dead jobs."""

    def __init__(self, shared: Shared, intake: Intake) -> None:
        self._shared = shared
        self._intake = intake

    async def page(self, query: JobQuery) -> JobPage:
        """A page of them, newest first."""
        return await self._shared.store.jobs(query)

    async def get(self, job_id: str) -> Job:
        """One of them."""
        job = await self._shared.store.job(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id}")
        if job.status is not Status.DEAD:
            raise NotFound(
                f"job {job_id} is {job.status}, so it is no dead letter; GET /jobs/{job_id} has it"
            )
        return job

    async def changes(self, job_id: str) -> Sequence[Change]:
        """What people did to a job, first to last."""
        return await self._shared.store.changes(job_id)

    async def dead(self, job_id: str) -> Job:
        """One that is to be replayed."""
        job = await self._shared.store.job(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id}")
        if job.status is not Status.DEAD:
            raise _not_dead(job.status)
        return job

    async def replay(self, job: Job, payload: bytes | None, act: Act, *, confirm: bool) -> None:
        """Run one again; an operator's single job passes where the queue is full."""
        self._check_type(job.type, confirm)
        wanted = Replay(job.id, act.at, payload)
        [found] = await self._shared.store.replay([wanted], act)
        _check_replayed(job.id, found)
        self._announce([wanted], act)

    async def replay_many(self, asked: BulkReplay, act: Act) -> BulkReplayed:
        """Run many of a type again, a few at a time, as far as the queue has room."""
        store = self._shared.store
        if not asked.dry_run:
            self._check_type(asked.type, asked.confirm)
        dead = store.counts.of(asked.type, Status.DEAD)
        most = min(asked.limit, MOST_REPLAYED if asked.dry_run else self._intake.room())
        ids = await store.dead(asked.type, asked.after, most + 1)
        chosen = ids[:most]
        replayed = chosen if asked.dry_run else await self._replay(chosen, asked, act)
        return BulkReplayed(
            ids=replayed,
            skipped=len(chosen) - len(replayed),
            dead=dead,
            confirm_needed=self._needs_confirm(asked.type),
            next_cursor=chosen[-1] if len(ids) > most else None,
        )

    async def discard(self, job_id: str, act: Act) -> None:
        """Give one up; it stays on record for the retention of dead jobs."""
        before = await self._shared.store.discard(job_id, act)
        if before is None:
            raise NotFound(f"there is no job {job_id}")
        if before != Status.DEAD:
            raise NotDead(f"the job is {before}; only dead jobs can be discarded")
        log.info("job %s discarded by %s: %s", job_id, act.actor, act.note)
        self._shared.meter.count("discarded")
        self._shared.changes.notify(job_id)
        self._shared.retention.finished()

    def _check_type(self, name: str, confirm: bool) -> None:
        if name not in self._shared.config.types:
            raise TypeGone(
                f"the job type {name!r} is no longer configured, so nothing would run the job; "
                "configure it again, or discard the job"
            )
        if self._needs_confirm(name) and not confirm:
            raise ConfirmNeeded(
                f"jobs of type {name!r} are replayed on purpose only (confirm_replay); "
                'send "confirm": true if it is meant'
            )

    def _needs_confirm(self, name: str) -> bool:
        job_type = self._shared.config.types.get(name)
        return job_type is not None and job_type.confirm_replay

    async def _replay(self, ids: Sequence[str], asked: BulkReplay, act: Act) -> list[str]:
        """The ids of those that run again."""
        step = 1000 / asked.pace_per_second if asked.pace_per_second else 0.0
        start = act.at + asked.delay
        waiting = iter([Replay(one, start + int(n * step)) for n, one in enumerate(ids)])
        done: list[str] = []
        while some := list(islice(waiting, _AT_ONCE)):
            found = await self._shared.store.replay(some, act)
            replayed = [
                one for one, state in zip(some, found, strict=True) if state and state.replayed
            ]
            self._announce(replayed, act)
            done += [one.job_id for one in replayed]
        return done

    def _announce(self, replayed: Sequence[Replay], act: Act) -> None:
        shared = self._shared
        for one in replayed:
            shared.promoter.wake_at(one.run_at)
            shared.changes.notify(one.job_id)
            edited = "" if one.payload is None else " with another payload"
            log.info("job %s replayed%s by %s", one.job_id, edited, act.actor)
        shared.meter.count("replayed", len(replayed))
        shared.dispatcher.wake()


def _check_replayed(job_id: str, found: Found | None) -> None:
    if found is None:
        raise NotFound(f"there is no job {job_id}")
    if found.newer is not None:
        raise KeyTaken(
            f"{found.newer} has the idempotency key of this one by now, and only one job may; "
            "discard this one, or submit its payload as a new job"
        )
    if not found.replayed:
        raise _not_dead(found.status)


def _not_dead(status: str) -> NotDead:
    return NotDead(f"the job is {status}; only dead jobs can be replayed")
