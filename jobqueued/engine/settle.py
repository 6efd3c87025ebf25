"""The only place that ends an attempt and decides what comes next."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from jobqueued import clock
from jobqueued.engine.parts import Shared
from jobqueued.model.job import WAITING, Claimed, Held, Lease, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import FAILURES, Backoff, after_attempt
from jobqueued.store.interface import Settlement

log = logging.getLogger("jobqueued.engine")


class Settler:
    """Local workers, remote workers, recovery and the reaper all end here."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def settle(self, ended: Sequence[tuple[Claimed | Held, Outcome]]) -> list[bool]:
        """End attempts; False where the lease was lost and nothing was changed."""
        if not ended:
            return []
        settlements = [self._decide(job, outcome) for job, outcome in ended]
        statuses = await self._shared.store.settle(settlements)
        for (job, outcome), settlement, status in zip(ended, settlements, statuses, strict=True):
            self._shared.deadlines.forget(job.lease.token)
            if status is None:
                self._refuse(settlement.lease)
                continue
            self._announce(job, settlement, status)
            await self._shared.breakers.heed(job, outcome)
        # What has ended leaves room for another.
        self._shared.dispatcher.wake()
        return [status is not None for status in statuses]

    def _refuse(self, lease: Lease) -> None:
        self._shared.meter.count("stale_outcomes")
        log.warning(
            "job %s attempt %d: late outcome refused, the lease is lost",
            lease.job_id,
            lease.attempt,
        )

    def _decide(self, job: Claimed | Held, outcome: Outcome) -> Settlement:
        job_type = self._shared.config.types.get(job.type)
        now = clock.now()
        following = after_attempt(
            outcome,
            failures=job.failures,
            losses=job.losses,
            max_retries=job.max_retries,
            backoff=Backoff() if job_type is None else job_type.backoff,
            now=now,
            chance=random.random(),
        )
        return Settlement(job.lease, outcome, following, now)

    def _announce(self, job: Claimed | Held, settlement: Settlement, status: Status) -> None:
        shared, outcome = self._shared, settlement.outcome
        shared.meter.count(f"outcome_{outcome.kind}")
        if status in WAITING:
            # It may expire, or have expired, before it is its turn again.
            shared.promoter.wake()
        else:
            shared.meter.count(str(status))
            shared.retention.finished()
        if outcome.kind in FAILURES:
            shared.recent.count(job.type, "failed")
        if outcome.kind is OutcomeKind.COMPLETED:
            shared.recent.completed(job.type, settlement.at - job.started_at)
        else:
            log.info(
                "job %s (%s) attempt %d %s, now %s: %s",
                job.lease.job_id,
                job.type,
                job.lease.attempt,
                outcome.kind,
                status,
                (outcome.error or "").partition("\n")[0],
            )
        shared.changes.notify(job.lease.job_id)
