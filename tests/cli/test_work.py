"""`jobqueued work`: commands for a daemon that is elsewhere."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobqueued.client import BlockingClient
from tests.cli.support import PATIENCE, environment, until
from tests.worker.support import RemoteServing


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServing]:
    serving = RemoteServing(tmp_path_factory.mktemp("work"))
    yield serving
    assert serving.stop() == 0


@pytest.fixture
def client(remote: RemoteServing) -> BlockingClient:
    return BlockingClient(remote.url)


@contextmanager
def working(remote: RemoteServing, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`jobqueued work ARGUMENTS` for as long as the block runs; it ends well."""
    command = [sys.executable, "-m", "jobqueued", "work", *arguments]
    process = subprocess.Popen(
        command, cwd=remote.place, env=environment(remote.place), stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
        process.terminate()
        _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told
    finally:
        process.kill()
        process.communicate()


def test_the_payload_comes_in_and_the_result_goes_out(
    remote: RemoteServing, client: BlockingClient
) -> None:
    with working(remote, "task", "--result", "stdout", "--name", "cat", "--", "cat"):
        job = client.submit("task", {"n": 10**29}, wait=PATIENCE)
    assert (job.status, job.result, job.worker) == ("completed", {"n": 10**29}, "cat")
    assert bytes(job.result_json) == bytes(job.payload_json)


def test_the_command_knows_its_job(remote: RemoteServing, client: BlockingClient) -> None:
    with working(remote, "task", "--result", "stdout", "--", "env", "-0"):
        job = client.submit("task", correlation_id="c", key="k", priority=8, wait=PATIENCE)
    told = dict(line.split("=", 1) for line in job.result.split("\0") if line)
    assert (told["JOB_ID"], told["JOB_TYPE"], told["JOB_ATTEMPT"]) == (job.id, "task", "1")
    assert (told["JOB_MAX_RETRIES"], told["JOB_PRIORITY"]) == ("3", "8")
    assert (told["JOB_CORRELATION_ID"], told["JOB_KEY"]) == ("c", "k")
    assert told["JOB_CREATED_AT"] == job.created_at.isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )
    assert told["JOB_DEADLINE"] > told["JOB_CREATED_AT"]
    assert told["JOB_LEASE_TOKEN"].startswith(job.id)
    assert told["JOBQUEUED_URL"] == remote.url


@pytest.mark.parametrize(
    ("script", "status", "error"),
    [
        ("echo broken >&2; exit 3", "retrying", "exit code 3: broken"),
        ("exit 65", "dead", "exit code 65"),
        ("kill -9 $$", "retrying", "killed by SIGKILL"),
    ],
)
def test_exits_mean_what_they_mean_to_the_daemon(
    remote: RemoteServing, client: BlockingClient, script: str, status: str, error: str
) -> None:
    with working(remote, "task", "--", "sh", "-c", script):
        job = client.submit("task")
        until(lambda: client.get(job.id).status == status)
    assert (client.get(job.id).last_error or "").startswith(error)


def test_a_command_that_takes_too_long_is_stopped(
    remote: RemoteServing, client: BlockingClient
) -> None:
    with working(remote, "timed", "--", "sh", "-c", "echo $$ > timed.pid; exec sleep 3600"):
        job = client.submit("timed")
        until(lambda: client.get(job.id).failures == 1)
        pid = int((remote.place / "timed.pid").read_text())
        until(lambda: not Path(f"/proc/{pid}").exists())


def test_cancelling_ends_the_command(remote: RemoteServing, client: BlockingClient) -> None:
    script = "trap 'echo told to stop >&2; exit 9' TERM; while :; do sleep 0.05; done"
    with working(remote, "short", "--", "sh", "-c", script) as process:
        job = client.submit("short")
        until(lambda: client.get(job.id).status == "processing")
        client.cancel(job.id)
        assert client.wait(job.id, PATIENCE).status == "cancelled"
        process.terminate()
        assert process.stderr is not None
        assert "told to stop" in process.stderr.read()


def test_a_command_reports_progress(remote: RemoteServing, client: BlockingClient) -> None:
    script = f"{sys.executable} -m jobqueued progress 40 half; read word < {remote.gate}"
    python_path = f"PYTHONPATH={environment(remote.place)['PYTHONPATH']}"
    with working(remote, "task", "--", "env", python_path, "sh", "-c", script):
        job = client.submit("task")
        until(lambda: client.get(job.id).progress)
        progress: Any = client.get(job.id).progress
        assert (progress.percent, progress.message) == (40, "half")
        remote.open_gate()
        assert client.wait(job.id, PATIENCE).status == "completed"


def test_several_commands_run_at_once(
    remote: RemoteServing, client: BlockingClient, tmp_path: Path
) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    with working(remote, "task", "--concurrency", "3", "--", "sh", "-c", script):
        ids = client.submit_many({"type": "task"} for _ in range(3))
        until(lambda: {client.get(one).status for one in ids} == {"processing"})
        (tmp_path / "go").touch()
        assert {client.wait(one, PATIENCE).status for one in ids} == {"completed"}


def test_a_second_signal_hands_the_job_back(remote: RemoteServing, client: BlockingClient) -> None:
    with working(remote, "task", "--", "sleep", "3600") as process:
        job = client.submit("task")
        until(lambda: client.get(job.id).status == "processing")
        process.send_signal(signal.SIGINT)
    [attempt] = client.attempts(job.id)
    assert (attempt.outcome, attempt.error) == ("interrupted", "stopped: the worker was stopped")
    client.cancel(job.id)


def test_a_type_that_is_not_remote_is_refused(remote: RemoteServing) -> None:
    done = remote.run("work", "greet", "--", "true")
    assert done.returncode == 1
    assert "set remote = true" in done.stderr


def test_work_needs_a_command(remote: RemoteServing) -> None:
    done = remote.run("work", "task")
    assert done.returncode == 2
    assert "Missing argument '-- COMMAND...'" in done.stderr
