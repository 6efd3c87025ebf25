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
        expired = await self._shared.store.expired_leases(now)
        if self._shared.claiming:
            # One of them may be about to start here.
            return now + _LEAST_PAUSE_MS
        # What runs in this process is not lost, however late its lease was extended.
        lost = [job for job in expired if self._shared.running.by_token(job.lease.token) is None]
        if lost:
            self._shared.meter.count("leases_expired", len(lost))
            await self._settler.settle([(job, self._outcome(job, now)) for job in lost])
        following = await self._shared.store.next_lease_expiry()
        return None if following is None else max(following, now + _LEAST_PAUSE_MS)

    def _outcome(self, job: Held, now: int) -> Outcome:
        job_type = self._shared.config.types.get(job.type)
        if job_type is not None and job.started_at + job_type.timeout <= now:
            error = f"no outcome within the timeout of {job_type.timeout / 1000:g} s"
            return Outcome(kind=OutcomeKind.TIMEOUT, error=error)
        return _lost(job, "the lease ran out before an outcome came")

    async def recover(self) -> int:
        """Before anything is claimed: take up what a daemon that died was running; how many."""
        held = await self._shared.store.held_by_daemon()
        if held:
            tokens = {job.lease.token for job in held}
            ended = await asyncio.to_thread(end_leftovers, tokens)
            reason = "the daemon died while this attempt ran"
            await self._settler.settle([(job, _lost(job, reason)) for job in held])
            log.warning("%d jobs of the last daemon taken up, %d processes ended", len(held), ended)
        return len(held)


def _lost(job: Held, reason: str) -> Outcome:
    kind = OutcomeKind.CANCELLED if job.cancel_requested else OutcomeKind.LOST
    return Outcome(kind=kind, error=reason)
