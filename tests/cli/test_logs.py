"""What jobs wrote, afterwards and as it comes."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.support import PATIENCE, Serving, environment


def test_the_log_of_the_latest_or_of_one_attempt(daemon: Serving) -> None:
    job_id = daemon.submit("fail")
    daemon.run("wait", job_id)
    assert daemon.run("logs", job_id).stdout == "it went wrong\n"
    assert daemon.run("logs", job_id, "--attempt", "1").stdout == "it went wrong\n"
    missing = daemon.run("logs", job_id, "--attempt", "2")
    assert (missing.returncode, missing.stdout) == (1, "")
    document = json.loads(daemon.run("logs", job_id, "--json").stdout)
    assert document == {"id": job_id, "attempt": None, "log": "it went wrong\n"}


def test_follow_prints_as_it_comes_and_ends_with_the_job(daemon: Serving) -> None:
    job_id = daemon.at_the_gate()
    following = subprocess.Popen(
        [sys.executable, "-m", "jobqueued", "logs", "-f", job_id],
        cwd=daemon.place,
        env=environment(daemon.place),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "at the gate\n"
    assert following.poll() is None
    daemon.open_gate("passed")
    rest, _ = following.communicate(timeout=PATIENCE)
    assert (rest, following.returncode) == ("passed\n", 0)
