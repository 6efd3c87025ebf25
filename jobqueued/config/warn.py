"""What is valid but probably not meant, or not there yet on this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from jobqueued.config.faults import Keys, dotted, quoted
from jobqueued.config.load import DEFAULT_POOL
from jobqueued.config.settings import Config
from jobqueued.config.units import format_duration, format_size
from jobqueued.model.job_type import CommandHandler, JobType

LONGEST_PATH = 4096

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
        for key, problem in _type_problems(job_type):
            yield ("types", name, *key.split(".")), problem


def _type_problems(job_type: JobType) -> Iterator[tuple[str, str]]:
    handler, backoff = job_type.handler, job_type.backoff
    if shutil.which(handler.argv[0], path=_search_path(handler)) is None:
        yield "command", f"{quoted(handler.argv[0], LONGEST_PATH)} is not there or not executable"
    if handler.cwd is not None and not os.path.isdir(handler.cwd):
        yield "cwd", f"{quoted(handler.cwd, LONGEST_PATH)} is not a directory"
    if handler.user is not None:
        yield from _user_problems(handler.user)
    if backoff.base > backoff.max:
        base, most = format_duration(backoff.base), format_duration(backoff.max)
        yield "backoff.base", f"{base} is more than backoff.max, {most}, which holds"


def _search_path(handler: CommandHandler) -> str:
    """Where a bare command is looked for: the daemon's own directory is searched too."""
    path = handler.env.get("PATH", os.environ.get("PATH", os.defpath))
    return os.pathsep.join([path, str(Path(sys.executable).parent)])


def _user_problems(user: str) -> Iterator[tuple[str, str]]:
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        yield "user", f"there is no user {quoted(user)} on this machine"
        return
    if os.geteuid() not in (0, account.pw_uid):
        yield "user", f"only a daemon that runs as root can run commands as {quoted(user)}"
