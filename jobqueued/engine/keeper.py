"""Keeps the leases of what runs here alive, and puts its output and progress on disk."""

from __future__ import annotations

import logging

from jobqueued import clock
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.engine.running import Running
from jobqueued.executors.interface import StopReason

log = logging.getLogger("jobqueued.engine")


class Keeper(Part):
    """Extends every lease when half of it is over."""

    name = "lease keeper"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared

    def watch(self, running: Running) -> None:
        self.wake_at(_half_time(running))

    async def run_once(self) -> int | None:
        await self._note_progress()
        now = clock.now()
        due = [running for running in self._shared.running if _half_time(running) <= now]
        if due:
            await self._extend(due, now)
        return min(map(_half_time, self._shared.running), default=None)

    async def _note_progress(self) -> None:
        for running in self._shared.running:
            progress, running.progress = running.progress, None
            if progress is not None:
                await self._shared.store.report_progress(running.claimed.lease, progress)

    async def _extend(self, due: list[Running], now: int) -> None:
        moments = [now + running.task.job_type.lease for running in due]
        leases = [running.claimed.lease for running in due]
        extended = await self._shared.store.extend(leases, moments)
        for running, moment, still_held in zip(due, moments, extended, strict=True):
            running.lease_expires_at = moment
            if not still_held and self._shared.running.by_token(running.claimed.lease.token):
                log.error("job %s: lease lost, its handler is ended", running.claimed.lease.job_id)
                running.task.stop.kill(StopReason.INTERRUPTED)
            elif running.task.output.total > running.logged:
                running.logged = running.task.output.total
                output = running.task.output.snapshot()
                await self._shared.store.keep_log(running.claimed.lease, output)


def _half_time(running: Running) -> int:
    return running.lease_expires_at - running.task.job_type.lease // 2
