"""Processes that are stopped, and go on later or never."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import until
from tests.fault import pauses  # noqa: F401
from tests.fault.kills import children_of, handlers_of
from tests.fault.short import suffer

CONFIG = """
[defaults]
timeout = "700ms"
kill_grace = "100ms"
max_retries = 3
backoff = { base = "10ms", factor = 1.0, jitter = "0s" }
[types.first]
command = ["sh", "-c", 'test "$JOB_ATTEMPT" -gt 1 || sleep 60']
[types.echo]
command = ["cat"]
[types.function]
python = "paused:first"
python_path = ["{place}"]
"""
FUNCTION = """
import time
def first(payload, job):
    if job.attempt == 1:
        time.sleep(60)
"""


async def test_the_daemon_and_what_works_for_it(tmp_path: Path) -> None:
    await suffer(
        tmp_path,
        "the daemon is stopped for a moment",
        "a launcher is stopped",
        "a handler is stopped",
        "the daemon is stopped past every lease",
    )


async def test_a_remote_worker(tmp_path: Path) -> None:
    await suffer(tmp_path, "a remote worker is stopped past its lease")


@pytest.fixture
def serving(prepare: Serve) -> Serving:
    made = prepare(CONFIG)
    (made.place / "paused.py").write_text(FUNCTION)
    return made.start()


@pytest.mark.parametrize("kind", ["first", "function"])
def test_a_handler_that_never_goes_on_is_ended_in_time(serving: Serving, kind: str) -> None:
    job_id = serving.running(kind)
    (handler,) = until(lambda: handlers_of(serving.process.pid))
    os.kill(handler, signal.SIGSTOP)
    assert serving.wait(job_id)["status"] == "completed"
    assert [one["outcome"] for one in serving.attempts(job_id)] == ["timeout", "completed"]


@pytest.mark.parametrize("kind", ["first", "function"])
def test_a_launcher_that_never_goes_on_holds_up_nothing(serving: Serving, kind: str) -> None:
    job_id = serving.running(kind)
    until(lambda: handlers_of(serving.process.pid))
    (launcher,) = children_of(serving.process.pid)
    os.kill(launcher, signal.SIGSTOP)
    assert serving.wait(job_id)["status"] == "completed"
    os.kill(launcher, signal.SIGSTOP)
    assert serving.finish("echo")["status"] == "completed"
    os.kill(launcher, signal.SIGSTOP)
    assert serving.stop() == 0
    assert serving.processes() == set()
