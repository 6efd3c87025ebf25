"""What is valid but probably not meant, or not there yet on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from jobqueued.config.faults import Keys, dotted
from jobqueued.config.load import DEFAULT_POOL
from jobqueued.config.settings import Config
from jobqueued.config.units import format_duration, format_size
from jobqueued.config.warn_handlers import Problem, handler_problems
from jobqueued.model.job_type import JobType

Doubt = tuple[Keys, str]


def warnings(config: Config) -> list[str]:
    """One line for each thing worth a second look; none of them stops the start."""
    return [f"{dotted(keys)}: {text}" for keys, text in doubts(config)]


def doubts(config: Config) -> Iterator[Doubt]:
    """The same, with the key that each is about."""
    yield from _general(config)
    yield from _pools(config)
    yield from _types(config)


def _general(config: Config) -> Iterator[Doubt]:
    queue, server = config.queue, config.server
    if not config.types:
        yield ("types",), "no job type is configured, so every submission is refused"
    if queue.max_payload > server.max_body:
        most, body = format_size(queue.max_payload), format_size(server.max_body)
        text = f"{most} is never reached, because server.max_body is {body}"
        yield ("queue", "max_payload"), text
    if config.store.path.is_dir():
        yield ("store", "path"), f"{config.store.path} is a directory, not a database file"


def _pools(config: Config) -> Iterator[Doubt]:
    used = {job_type.pool for job_type in config.types.values()} | {DEFAULT_POOL}
    for name in config.pools:
        if name not in used:
            yield ("pools", name), "no job type uses this pool"


def _types(config: Config) -> Iterator[Doubt]:
    for name, job_type in config.types.items():
        for keys, problem in _type_problems(job_type):
            yield ("types", name, *keys), problem
        for key, problem in _limit_problems(config, job_type):
            yield ("types", name, key), problem


def _type_problems(job_type: JobType) -> Iterator[Problem]:
    yield from handler_problems(job_type.handler)
    backoff = job_type.backoff
    if backoff.base > backoff.max:
        base, most = format_duration(backoff.base), format_duration(backoff.max)
        yield ("backoff", "base"), f"{base} is more than backoff.max, {most}, which holds"


def _limit_problems(config: Config, job_type: JobType) -> Iterator[tuple[str, str]]:
    workers, limit = _workers(config, job_type), job_type.max_running or inf
    if inf > limit > workers:
        text = f"it is never reached, because pool {job_type.pool} has {workers} workers"
        yield "max_running", text
    if (most := min(workers, limit)) < (job_type.max_running_per_key or 0):
        text = f"it is never reached, because at most {most} jobs of the type run at once"
        yield "max_running_per_key", text


def _workers(config: Config, job_type: JobType) -> float:
    """How many workers there are for a type; a pool that is not there is a fault of its own."""
    pool = config.pools.get(job_type.pool)
    return inf if job_type.handler.kind == "remote" or pool is None else pool.workers
