"""Takes back jobs whose lease has run out, and what a dead daemon left behind."""

from __future__ import annotations

import asyncio
import logging

from jobqueued import clock
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.settle import Settler
from jobqueued.executors.leftovers import end_leftovers
from jobqueued.model.job import Held
from jobqueued.model.outcome import Outcome, OutcomeKind

log = logging.getLogger("jobqueued.engine")

_LEAST_PAUSE_MS = 1_000


class Reaper(Part):
    """Sleeps until the next lease runs out."""

    name = "reaper"

    def __init__(self, shared: Shared, settler: Settler) -> None:
        super().__init__()
        self._shared = shared
        self._settler = settler

    async def run_once(self) -> int | None:
        now = clock.now()
        found = await self._run_out(now)
        if self._shared.claiming:
            # One of them may be about to start here.
            return now + _LEAST_PAUSE_MS
        # What runs in this process is not lost, however late its lease was extended.
        lost = [job for job in found if self._shared.running.by_token(job.lease.token) is None]
        if lost:
            self._shared.meter.count("leases_expired", len(lost))
            await self._settler.settle([(job, self._outcome(job, now)) for job in lost])
        return await self._next(now)

    async def _run_out(self, now: int) -> list[Held]:
        """Jobs whose lease has run out: by our own clock where it is known, else by the wall's."""
        store, deadlines = self._shared.store, self._shared.deadlines
        expired = await store.expired_leases(now)
        lengths = [(job, deadlines.left(job.lease.token)) for job in expired]
        alive = [(job, left) for job, left in lengths if left is not None and left > 0]
        if alive:
            # Somebody has set the clock forward.
            leases = [job.lease for job, _ in alive]
            await store.extend(leases, [now + left for _, left in alive])
        unknown = [job for job, left in lengths if left is None]
        return [*await self._run_out_here(), *unknown]

    async def _run_out_here(self) -> list[Held]:
        deadlines, found = self._shared.deadlines, []
        tokens = deadlines.run_out()
        held = await self._shared.store.held_under(tokens) if tokens else []
        for token, job in zip(tokens, held, strict=True):
            if job is None:
                deadlines.forget(token)
            elif (deadlines.left(token) or 0) <= 0:
                # A sign of life has not come while we looked.
                found.append(job)
        return found

    async def _next(self, now: int) -> int | None:
        moments = [await self._shared.store.next_lease_expiry()]
        left = self._shared.deadlines.next()
        moments.append(None if left is None else now + left)
        following = min((moment for moment in moments if moment is not None), default=None)
        return None if following is None else max(following, now + _LEAST_PAUSE_MS)

    def _outcome(self, job: Held, now: int) -> Outcome:
        job_type = self._shared.config.types.get(job.type)
        if job_type is not None and self._is_over(job, job_type.timeout, now):
            error = f"no outcome within the timeout of {job_type.timeout / 1000:g} s"
            return Outcome(kind=OutcomeKind.TIMEOUT, error=error)
        return _lost(job, "the lease ran out before an outcome came")

    def _is_over(self, job: Held, timeout: int, now: int) -> bool:
        deadlines, token = self._shared.deadlines, job.lease.token
        if deadlines.left(token) is not None:
            return deadlines.is_over(token)
        return job.started_at + timeout <= now

    async def recover(self) -> int:
        """Before anything is claimed: take up what a daemon that died was running; how many."""
        held = await self._shared.store.held_by_daemon()
        if held:
            tokens = {job.lease.token for job in held}
            ended = await asyncio.to_thread(end_leftovers, tokens)
            reason = "the daemon died while this attempt ran"
            lost = [(job, _lost(job, reason)) for job in held]
            await self._settler.settle(lost, handlers_fault=False)
            log.warning("%d jobs of the last daemon taken up, %d processes ended", len(held), ended)
        return len(held)


def _lost(job: Held, reason: str) -> Outcome:
    kind = OutcomeKind.CANCELLED if job.cancel_requested else OutcomeKind.LOST
    return Outcome(kind=kind, error=reason)
