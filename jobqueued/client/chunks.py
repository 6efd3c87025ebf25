"""Many jobs as batches: how large each is, when its jobs are due, what came of them."""

from __future__ import annotations

import time

from jobqueued.client.calls import NewJob, put_off, with_key
from jobqueued.client.errors import Problem
from jobqueued.client.models import NewBatch

BATCH = 100
"""Jobs in a batch, which is what a daemon takes unless it is told otherwise."""


class Chunks:
    """Gathers jobs until a batch is full; holds no more than that one."""

    def __init__(self, pace_per_second: float | None) -> None:
        self.pace_per_second = pace_per_second
        self.ids: list[str] = []
        self._size = BATCH
        self._jobs: list[NewJob] = []
        self._began = time.monotonic()

    def add(self, job: NewJob) -> bool:
        """Take one more; whether it is time to send."""
        self._jobs.append(with_key(job))
        return len(self._jobs) >= self._size

    def take(self) -> list[NewJob]:
        """The next batch, as large as the daemon takes it; empty when all are sent."""
        chunk = self._jobs[: self._size]
        if self.pace_per_second is None:
            return chunk
        due = len(self.ids) / self.pace_per_second - (time.monotonic() - self._began)
        return [put_off(job, due) for job in chunk]

    def accepted(self, batch: NewBatch) -> None:
        """The batch is on disk."""
        self.ids += [job.id for job in batch.jobs]
        del self._jobs[: len(batch.jobs)]

    def refused(self, problem: Problem) -> None:
        """Try smaller batches where the size is what is wrong; raise any other problem."""
        sent = min(self._size, len(self._jobs))
        if not _is_about_size(problem) or sent == 1:
            raise problem.counted_from(len(self.ids))
        self._size = sent // 2


def _is_about_size(problem: Problem) -> bool:
    if problem.status == 413:
        return not problem.errors
    return problem.status == 400 and [fault.field for fault in problem.errors] == ["jobs"]
