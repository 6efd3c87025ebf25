"""What jobs wrote, afterwards and as it comes."""

from __future__ import annotations

import json
import subprocess
import sys

import click

from jobqueued.cli.logs import follow_apart
from jobqueued.client.address import Address
from jobqueued.client.daemon import Daemon
from tests.cli.support import PATIENCE, Serving, environment, until


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


def test_a_line_tells_attempts_apart(daemon: Serving) -> None:
    job_id = daemon.submit("fail", "--max-retries", "1")
    until(lambda: daemon.job(job_id)["status"] == "retrying")
    client = Daemon([Address(str(daemon.place / "jobqueued.sock"))])
    chunks = follow_apart(client, job_id)
    assert next(chunks) == b"it went wrong\n"
    assert daemon.run("run", job_id).returncode == 0
    plain = click.unstyle(b"".join(chunks).decode())
    assert plain == "--- attempt 2 ---\nit went wrong\n"
