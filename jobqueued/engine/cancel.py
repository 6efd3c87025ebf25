"""Cancelling: waiting jobs end at once, running ones are told to stop."""

from __future__ import annotations

from collections.abc import Sequence

from jobqueued import clock
from jobqueued.engine.parts import Shared
from jobqueued.executors.interface import StopReason
from jobqueued.model.errors import Conflict, NotFound
from jobqueued.model.job import TERMINAL, WAITING, Status
from jobqueued.model.submission import Cancelled, JobQuery

MOST_COUNTED = 100_000


class Canceller:
    """Cancels one job, or some of those that fit a filter."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def cancel(self, job_id: str) -> None:
        """Cancel a job that is not over."""
        store = self._shared.store
        running = self._shared.running.by_job(job_id)
        if running is not None and store.disk_full and not running.ended:
            # It may be the one that fills the disk; its outcome will be on record.
            running.task.stop.ask(StopReason.CANCELLED)
            return
        before = await store.cancel(job_id, clock.now())
        if before is None:
            raise NotFound(f"there is no job {job_id}")
        if before in TERMINAL:
            raise Conflict(f"the job is {before} already")
        self._follow([job_id], [before])

    async def cancel_some(self, query: JobQuery) -> Cancelled:
        """Cancel as many jobs as the query's limit allows."""
        store = self._shared.store
        found = await store.find_to_cancel(query)
        before = await store.cancel_many(found, query.statuses, clock.now())
        pairs = zip(found, before, strict=True)
        hit = [(job_id, status) for job_id, status in pairs if status in query.statuses]
        ids = [job_id for job_id, _ in hit]
        stopping = self._follow(ids, [status for _, status in hit])
        more = len(found) == query.limit
        # Those of a label come newest first; the others are found in no order.
        cursor = found[-1] if found and query.has_label else query.before_id
        return Cancelled(len(ids), ids, stopping, more, cursor)

    async def would_cancel(self, query: JobQuery) -> Cancelled:
        """What it would come to, counted up to a bound; nothing is changed."""
        store = self._shared.store
        number = await store.count_to_cancel(query, MOST_COUNTED + 1)
        found = await store.find_to_cancel(query)
        more = number > MOST_COUNTED
        return Cancelled(min(number, MOST_COUNTED), found, 0, more, query.before_id)

    def _follow(self, job_ids: Sequence[str], before: Sequence[str | None]) -> int:
        """Tell everybody who has to know; how many are running and will stop."""
        shared, stopping = self._shared, 0
        for job_id, status in zip(job_ids, before, strict=True):
            if status == Status.PROCESSING:
                stopping += 1
                running = shared.running.by_job(job_id)
                if running is not None:
                    running.task.stop.ask(StopReason.CANCELLED)
            elif status in WAITING:
                shared.changes.notify(job_id)
        ended = len(job_ids) - stopping
        if ended:
            shared.meter.count("cancelled", ended)
            shared.retention.finished()
        return stopping
