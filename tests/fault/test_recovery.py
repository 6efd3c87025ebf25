"""What a daemon that died was doing: the next one takes it up, in order, never twice at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import until
from tests.fault.daemon import FaultDaemon
from tests.fault.executions import prepare_notes, read_executions
from tests.fault.history import History

JOBS = 4
STUBBORN = "trap '' TERM; echo at the gate; while :; do sleep 0.05; done"
MORE = f"""
[types.stubborn]
command = ["sh", "-c", "{STUBBORN}"]
[types.quick]
command = ["true"]
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FaultDaemon]:
    """A daemon that takes jobs."""
    prepare_notes(tmp_path)
    made = FaultDaemon(tmp_path, History())
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "more.toml").write_text(MORE)
    made.start()
    yield made
    made.clean_up()


def submit(daemon: FaultDaemon, kind: str, seconds: float) -> str:
    payload: dict[str, Any] = {"number": "1", "failures": 0, "fatal": False, "stubborn": False}
    job_id: str = daemon.submit(kind, payload=payload | {"seconds": seconds})["id"]
    return job_id


def until_started(daemon: FaultDaemon, *names: tuple[str, int]) -> None:
    """Wait until the handlers of these jobs work, at these attempts."""

    def have_started() -> bool:
        return set(names) <= {(one.job_id, one.attempt) for one in read_executions(daemon.place)}

    until(have_started)


def test_what_ran_goes_before_what_waits(daemon: FaultDaemon) -> None:
    first = submit(daemon, "single", 0.5)
    waiting = [submit(daemon, "single", 0.1) for _ in range(30)]
    until_started(daemon, (first, 1))
    daemon.kill()
    daemon.start()
    until_started(daemon, (first, 2))
    assert {daemon.job(job_id)["attempt"] for job_id in waiting} == {0}


def test_no_handler_outlives_a_killed_daemon(daemon: FaultDaemon) -> None:
    jobs = [submit(daemon, "command", 600) for _ in range(JOBS)]
    until_started(daemon, *((job_id, 1) for job_id in jobs))
    assert len(daemon.processes()) == JOBS + 2
    daemon.kill()
    until(lambda: not daemon.processes())


def test_handlers_whose_launcher_is_killed_too_do_not_meet_the_next_attempt(
    daemon: FaultDaemon,
) -> None:
    jobs = [submit(daemon, "command", 1) for _ in range(JOBS)]
    until_started(daemon, *((job_id, 1) for job_id in jobs))
    os.kill(daemon.launcher(), signal.SIGKILL)
    daemon.kill()
    daemon.start()
    assert {daemon.wait(job_id)["status"] for job_id in jobs} == {"completed"}
    assert not any(one.overlapped for one in read_executions(daemon.place))


def test_a_cancellation_outlives_the_daemon_that_promised_it(daemon: FaultDaemon) -> None:
    job_id = daemon.at_gate("stubborn")
    assert daemon.post(f"/jobs/{job_id}/cancel").status == 200
    assert daemon.job(job_id)["status"] == "processing"
    daemon.kill()
    daemon.start()
    job = daemon.wait(job_id)
    assert (job["status"], job["attempt"]) == ("cancelled", 1)
    assert [one["outcome"] for one in daemon.attempts(job_id)] == ["cancelled"]


def test_what_came_due_while_no_daemon_was_there_runs_at_the_start(daemon: FaultDaemon) -> None:
    due = daemon.submit("quick", delay_seconds=0.2)
    expired = daemon.submit("quick", delay_seconds=0.1, expires_in_seconds=0.15)["id"]
    later = daemon.submit("quick", delay_seconds=3600)["id"]
    daemon.kill()
    until(lambda: time.time() > daemon.launched_at + 1)
    daemon.start()
    assert daemon.wait(due["id"])["status"] == "completed"
    assert daemon.wait(expired)["status"] == "expired"
    assert daemon.job(later)["status"] == "scheduled"
