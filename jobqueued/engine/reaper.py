"""Takes back jobs whose lease has run out, and what a dead daemon left behind."""

from __future__ import annotations

import asyncio
import logging

from jobqueued import clock
from jobqueued.engine.listening import listen
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
        moment = clock.monotonic()
        lost = await self._overdue(moment)
        if lost:
            # A worker that lives is heard by then, also when it was we who stood still.
            await listen()
            lost = await self._overdue(moment)
        now = clock.now()
        if self._shared.claiming:
            # One of them may be about to start here.
            return now + _LEAST_PAUSE_MS
        if lost:
            self._shared.meter.count("leases_expired", len(lost))
            await self._settler.settle([(job, self._give_up(job, now)) for job in lost])
        return await self._next(now)

    async def _overdue(self, moment: float) -> list[Held]:
        """Jobs whose lease had run out at this moment, and that nobody has claimed to run since."""
        deadlines, running = self._shared.deadlines, self._shared.running
        here = await self._expired_here()
        tokens = deadlines.run_out(moment)
        there = await self._shared.store.held_under(tokens) if tokens else []
        for token, job in zip(tokens, there, strict=True):
            if job is None:
                deadlines.forget(token)
        # Looked at last: from here to the end of these attempts nothing else comes in between.
        return [
            *(job for job in here if running.by_token(job.lease.token) is None),
            *(job for job in there if job and deadlines.has_run_out(job.lease.token, moment)),
        ]

    async def _expired_here(self) -> list[Held]:
        """Jobs of this process whose lease has run out by its date.

        Those elsewhere are not lost by a date, which may be of a clock that was set.
        """
        store, deadlines = self._shared.store, self._shared.deadlines
        expired = await store.expired_leases(clock.now())
        strange = [job for job in expired if deadlines.left(job.lease.token) is None]
        for job in await store.held_under([job.lease.token for job in strange]) if strange else []:
            if job is not None:
                self._shared.remote.adopt(job)
        lengths = [(job.lease, deadlines.left(job.lease.token) or 0) for job in expired]
        alive = [(lease, left) for lease, left in lengths if left > 0]
        if alive:
            moments = [clock.now() + left for _, left in alive]
            await store.extend([lease for lease, _ in alive], moments)
        return [job for job in strange if deadlines.left(job.lease.token) is None]

    async def _next(self, now: int) -> int | None:
        moments = [await self._shared.store.next_lease_expiry()]
        left = self._shared.deadlines.next()
        moments.append(None if left is None else now + left)
        following = min((moment for moment in moments if moment is not None), default=None)
        return None if following is None else max(following, now + _LEAST_PAUSE_MS)

    def _give_up(self, job: Held, now: int) -> Outcome:
        """What became of an attempt whose lease has run out; it cannot be renewed any more."""
        silence = self._shared.deadlines.silence(job.lease.token)
        self._shared.deadlines.give_up(job.lease.token)
        job_type = self._shared.config.types.get(job.type)
        if job_type is not None and self._is_over(job, job_type.timeout, now):
            error = f"no outcome within the timeout of {job_type.timeout / 1000:g} s"
            return Outcome(kind=OutcomeKind.TIMEOUT, error=error)
        if silence is None:
            return _lost(job, "the lease ran out before an outcome came")
        return _lost(job, f"the lease ran out: no sign of life for {silence:.1f} s")

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
            await self._settler.settle([(job, _lost(job, reason)) for job in held])
            log.warning("%d jobs of the last daemon taken up, %d processes ended", len(held), ended)
        return len(held)


def _lost(job: Held, reason: str) -> Outcome:
    kind = OutcomeKind.CANCELLED if job.cancel_requested else OutcomeKind.LOST
    return Outcome(kind=kind, error=reason)
