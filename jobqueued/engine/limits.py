"""How many more jobs of a type may start in its pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jobqueued.config import Config, PoolSettings
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Counts, Room

_NO_LIMIT = 1_000_000_000
NOTHING: Mapping[str, int] = {}


def rooms(
    config: Config,
    pool: str,
    settings: PoolSettings,
    counts: Counts,
    *,
    resting: Collection[str] = (),
    ending: Mapping[str, int] = NOTHING,
) -> dict[str, Room]:
    """The types of a pool that have jobs pending and room to run them; none that is resting.

    Of those that run, so many as `ending` says are over before anything claimed now starts.
    """
    types = [t for t in config.types.values() if t.pool == pool and t.handler.kind != "remote"]
    share = _share(settings, len(types))
    found = {}
    for job_type in types:
        if counts.of(job_type.name, "pending") > 0 and job_type.name not in resting:
            most = _limit(job_type, share)
            running = counts.of(job_type.name, "processing") - ending.get(job_type.name, 0)
            if running < most:
                found[job_type.name] = Room(most, job_type.lease)
    return found


def remote_rooms(
    config: Config, names: Sequence[str], lease: int | None, counts: Counts
) -> dict[str, Room]:
    """The types a remote worker asks for that have jobs pending and room to run them."""
    found = {}
    for name in names:
        job_type = config.types.get(name)
        if job_type is None or job_type.handler.kind != "remote":
            continue
        if counts.of(name, "pending") > 0:
            most = _limit(job_type, _NO_LIMIT)
            if counts.of(name, "processing") < most:
                found[name] = Room(most, min(lease or job_type.lease, job_type.timeout))
    return found


def _share(settings: PoolSettings, types: int) -> int:
    if types <= 1:
        return settings.workers
    return max(1, int(settings.workers * settings.max_share))


def _limit(job_type: JobType, share: int) -> int:
    return share if job_type.max_running is None else min(share, job_type.max_running)
