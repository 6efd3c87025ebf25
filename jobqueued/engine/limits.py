"""How many more jobs of a type may start in its pool."""

from __future__ import annotations

from jobqueued.config import Config, PoolSettings
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Counts, Room


def rooms(config: Config, pool: str, settings: PoolSettings, counts: Counts) -> dict[str, Room]:
    """The types of a pool that have jobs pending and room to run them."""
    types = [job_type for job_type in config.types.values() if job_type.pool == pool]
    share = _share(settings, len(types))
    found = {}
    for job_type in types:
        if counts.of(job_type.name, "pending") > 0:
            count = _limit(job_type, share) - counts.of(job_type.name, "processing")
            if count > 0:
                found[job_type.name] = Room(count, job_type.lease)
    return found


def _share(settings: PoolSettings, types: int) -> int:
    if types <= 1:
        return settings.workers
    return max(1, int(settings.workers * settings.max_share))


def _limit(job_type: JobType, share: int) -> int:
    return share if job_type.max_running is None else min(share, job_type.max_running)
