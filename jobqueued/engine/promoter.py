"""Makes scheduled and retrying jobs pending when they are due, and expires what waited too long."""

from __future__ import annotations

from jobqueued import clock
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared


class Promoter(Part):
    """Sleeps until the next job is due or expires."""

    name = "promoter"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared

    async def run_once(self) -> int | None:
        shared = self._shared
        now = clock.now()
        expired = await shared.store.expire(now)
        for job_id in expired:
            shared.meter.count("expired")
            shared.changes.notify(job_id)
        if expired:
            shared.retention.finished()
        if await shared.store.promote(now) or expired:
            shared.dispatcher.wake()
        return await shared.store.next_due()
