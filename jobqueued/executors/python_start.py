"""What a Python child is started with: its command line, its environment, its first messages."""

from __future__ import annotations

import sys
from importlib import resources

import msgspec

from jobqueued.executors.exits import size_text
from jobqueued.executors.interface import Task
from jobqueued.executors.processes import TOKEN_VARIABLE
from jobqueued.model.job import MAX_RESULT
from jobqueued.model.job_type import PythonHandler

_PACKAGE = resources.files("jobqueued")
RUNNER = _PACKAGE.joinpath("executors", "python_runner.py").read_bytes()
"""The program of the child, sent to it: it may run where our own files cannot be read."""
ERRORS = _PACKAGE.joinpath("model", "handler_errors.py").read_bytes()
"""`Retry` and `Fatal`, for an interpreter that does not have this package."""

BOOTSTRAP = f"""import os, sys
if sys.path[:1] == [""]:
    del sys.path[0]
source = b""
while len(source) < {len(RUNNER)}:
    source += os.read(0, {len(RUNNER)} - len(source)) or sys.exit()
scope = {{"__name__": "jobqueued"}}
exec(compile(source, "<jobqueued>", "exec"), scope)
scope["main"]()
"""


def command_line(handler: PythonHandler) -> tuple[str, ...]:
    """The interpreter, told to take its program from standard input; the last word is for `ps`."""
    name = f"{handler.module}:{handler.function}"
    return (handler.interpreter or sys.executable, "-c", BOOTSTRAP, name)


def child_environment(task: Task, handler: PythonHandler, token: str) -> dict[str, str]:
    """The variables that hold for every job of a child; `token` finds what it leaves behind."""
    told = {"JOB_TYPE": task.claimed.type, "JOBQUEUED_URL": task.url, TOKEN_VARIABLE: token}
    return handler.env | told


def settings_of(handler: PythonHandler) -> bytes:
    """What the runner must know before its first job."""
    path = [*handler.python_path, *([handler.cwd] if handler.cwd else [])]
    return msgspec.json.encode(
        {
            "path": path,
            "function": {"module": handler.module, "name": handler.function},
            "memory": handler.memory,
            "max_result": MAX_RESULT,
            "too_large": f"the return value is larger than {size_text(MAX_RESULT)} as JSON",
        }
    )


def told_about(task: Task) -> bytes:
    """The fields of the context, in the order in which the runner takes them."""
    job, lease = task.claimed, task.claimed.lease
    return _encode(
        (
            lease.job_id,
            lease.attempt,
            job.type,
            job.created_at,
            task.deadline,
            job.correlation_id,
            job.key,
            job.max_retries,
            job.priority,
            lease.token,
            task.url,
        )
    )


_encode = msgspec.json.Encoder().encode
