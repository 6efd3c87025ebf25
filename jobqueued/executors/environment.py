"""The clean environment a handler starts with."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping

from jobqueued import clock
from jobqueued.executors.interface import Task
from jobqueued.executors.processes import TOKEN_VARIABLE
from jobqueued.executors.spawn import home_of


def base_environment(daemon: Mapping[str, str]) -> dict[str, str]:
    """What every handler gets from the surroundings of the daemon."""
    base = {"PATH": _search_path(daemon), "LANG": daemon.get("LANG") or "C.UTF-8"}
    if daemon.get("TZ"):
        base["TZ"] = daemon["TZ"]
    return base


def owner_environment(daemon: Mapping[str, str]) -> dict[str, str]:
    """Who the daemon is; for handlers that run as its own user."""
    try:
        owner = home_of(pwd.getpwuid(os.geteuid()))
    except KeyError:
        owner = {"HOME": "/"}
    return owner | {name: daemon[name] for name in ("HOME",) if daemon.get(name)}


def job_environment(task: Task) -> dict[str, str]:
    """What a handler is told about its job."""
    job, lease = task.claimed, task.claimed.lease
    told = {
        "JOB_ID": lease.job_id,
        "JOB_TYPE": job.type,
        "JOB_ATTEMPT": str(lease.attempt),
        "JOB_MAX_RETRIES": str(job.max_retries),
        "JOB_PRIORITY": str(job.priority),
        "JOB_CREATED_AT": clock.rfc3339(job.created_at),
        "JOB_DEADLINE": clock.rfc3339(task.deadline),
        TOKEN_VARIABLE: lease.token,
        "JOBQUEUED_URL": task.url,
    }
    if job.correlation_id is not None:
        told["JOB_CORRELATION_ID"] = _without_null(job.correlation_id)
    if job.key is not None:
        told["JOB_KEY"] = _without_null(job.key)
    return told


def _search_path(daemon: Mapping[str, str]) -> str:
    path = daemon.get("PATH") or os.defpath
    own = os.path.dirname(sys.executable)
    return path if own in path.split(os.pathsep) else f"{path}{os.pathsep}{own}"


def _without_null(text: str) -> str:
    # No environment can hold one; JSON text can.
    return text.replace("\0", "")
