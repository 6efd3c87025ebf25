"""The only place that ends an attempt and decides what comes next."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from jobqueued import clock
from jobqueued.engine.parts import Shared
from jobqueued.model.job import Claimed, Held, Status
from jobqueued.model.outcome import Outcome, OutcomeKind
from jobqueued.model.retry import Backoff, after_attempt
from jobqueued.store.interface import Settlement

log = logging.getLogger("jobqueued.engine")


class Settler:
    """Local workers, recovery and the reaper all end here."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def settle_claimed(self, claimed: Claimed, outcome: Outcome) -> None:
        await self._settle([(claimed, outcome)])

    async def settle_lost(self, held: Sequence[Held], reason: str) -> None:
        """End attempts whose holder is gone."""
        await self._settle(
            [
                (
                    job,
                    Outcome(
                        kind=OutcomeKind.CANCELLED if job.cancel_requested else OutcomeKind.LOST,
                        error=reason,
                    ),
                )
                for job in held
            ]
        )

    async def _settle(self, ended: Sequence[tuple[Claimed | Held, Outcome]]) -> None:
        settlements = [self._decide(job, outcome) for job, outcome in ended]
        recorded = await self._shared.store.settle(settlements)
        for (job, _), settlement, status in zip(ended, settlements, recorded, strict=True):
            if status is not None:
                self._announce(job, settlement, status)
            else:
                self._shared.meter.count("stale_outcomes")
                log.warning(
                    "job %s attempt %d: late outcome refused, the lease is lost",
                    settlement.lease.job_id,
                    settlement.lease.attempt,
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
        if status is Status.PENDING:
            shared.dispatcher.wake()
        elif status is Status.RETRYING:
            shared.promoter.wake_at(settlement.next.run_at or settlement.at)
        else:
            shared.meter.count(str(status))
            shared.retention.finished()
        if outcome.kind is not OutcomeKind.COMPLETED:
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
