"""Jobs through the command line, from submission to their end, with a real daemon."""

from __future__ import annotations

import json
import subprocess
import sys

from jobqueued import clock
from tests.cli.support import PATIENCE, Serving, environment, until


def test_submit_prints_the_id_and_wait_sees_it_complete(daemon: Serving) -> None:
    job_id = daemon.submit("greet", '{"name":"world"}')
    done = daemon.run("wait", job_id, "--timeout", "20")
    assert (done.returncode, done.stdout) == (0, f"{job_id} completed\n")
    job = daemon.job(job_id)
    assert job["result"] == {"name": "world"}
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["completed"]


def test_submit_can_wait_itself(daemon: Serving) -> None:
    done = daemon.run("submit", "greet", "[1]", "--wait", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"] == [1]
    assert daemon.run("submit", "--wait", "fail").returncode == 1


def test_submit_gives_up_waiting_when_the_time_is_up(daemon: Serving) -> None:
    done = daemon.run("submit", "gate", "--wait", "0.1", "--delay", "1h", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "scheduled"


def test_a_payload_from_standard_input_keeps_every_digit(daemon: Serving) -> None:
    payload = '{"b":1.10,"a":123456789012345678901234567890}'
    job_id = daemon.submit("greet", "-", stdin=payload)
    assert f'"payload":{payload}' in daemon.run("show", job_id, "--json").stdout
    assert payload.replace(",", ", ").replace(":", ": ") in daemon.run("show", job_id).stdout


def test_every_field_of_a_submission_arrives(daemon: Serving) -> None:
    labels = ["--idempotency-key", "i-1", "--correlation-id", "c-1", "--key", "k-1"]
    numbers = ["--priority", "9", "--max-retries", "3", "--delay", "90m", "--expires-in", "1d"]
    job = daemon.job(daemon.submit("greet", *labels, *numbers))
    assert (job["idempotency_key"], job["correlation_id"], job["key"]) == ("i-1", "c-1", "k-1")
    assert (job["priority"], job["max_retries"], job["status"]) == (9, 3, "scheduled")
    assert job["run_at"] > job["created_at"]
    assert job["expires_at"] > job["run_at"]


def test_times_are_passed_on(daemon: Serving) -> None:
    run_at, expires_at = (clock.rfc3339(clock.now() + hours * 3_600_000) for hours in (1, 2))
    job = daemon.job(daemon.submit("greet", "--run-at", run_at, "--expires-at", expires_at))
    assert (job["run_at"], job["expires_at"]) == (run_at, expires_at)


def test_the_same_idempotency_key_is_the_same_job(daemon: Serving) -> None:
    first = daemon.submit("greet", "--idempotency-key", "same")
    assert daemon.submit("greet", "--idempotency-key", "same") == first


def test_refusals_name_what_is_wrong(daemon: Serving) -> None:
    unknown = daemon.run("submit", "gret")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("error: ")
    assert "greet" in unknown.stderr
    fields = daemon.run("submit", "greet", "--run-at", "soon", "--key", "k" * 300)
    assert fields.returncode == 1
    first, second = fields.stderr.splitlines()
    assert first.startswith("error: --run-at: must be ")
    assert second.startswith("  --key: must be ")
    assert fields.stdout == ""


def test_one_fault_is_told_once_and_in_the_words_of_the_command_line(daemon: Serving) -> None:
    soon = "2026-01-31T12:00:00Z"
    done = daemon.run("submit", "greet", "--delay", "5s", "--run-at", soon)
    assert done.stderr == "error: --run-at: cannot be given together with --delay\n"


def test_the_end_of_a_job_that_did_not_complete_is_told_beside_the_output(daemon: Serving) -> None:
    failed = daemon.run("submit", "fail", "--wait")
    assert failed.stderr.startswith("error: dead: ")
    assert "it went wrong" in failed.stderr
    assert len(failed.stdout.splitlines()) == 1
    as_json = daemon.run("submit", "fail", "--wait", "--json")
    assert as_json.stderr == failed.stderr
    assert json.loads(as_json.stdout)["status"] == "dead"
    waiting = daemon.run("submit", "greet", "--delay", "1h", "--wait", "0")
    assert waiting.stderr == "error: not over yet, scheduled\n"


def test_a_job_that_is_not_there_is_told(daemon: Serving) -> None:
    for command in ("show", "wait", "cancel", "run", "logs"):
        done = daemon.run(command, "no/such job?")
        assert done.returncode == 1, command
        assert done.stderr.startswith("error: "), command


def test_wait_exits_1_when_one_of_the_jobs_did_not_complete(daemon: Serving) -> None:
    good, bad = daemon.submit("greet"), daemon.submit("fail")
    done = daemon.run("wait", good, bad)
    assert (done.returncode, done.stdout) == (1, f"{good} completed\n{bad} dead\n")


def test_wait_gives_up_when_the_time_is_up(daemon: Serving) -> None:
    job_id = daemon.submit("greet", "--delay", "1h")
    done = daemon.run("wait", job_id, "--timeout", "100ms", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "scheduled"


def test_wait_outlives_a_restart(own_daemon: Serving) -> None:
    over, later = own_daemon.submit("greet"), own_daemon.submit("greet", "--delay", "1h")
    waiting = subprocess.Popen(
        [sys.executable, "-m", "jobqueued", "wait", over, later],
        cwd=own_daemon.place,
        env=environment(own_daemon.place),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == f"{over} completed\n"
    own_daemon.stop()
    own_daemon.start()
    own_daemon.run("run", later)
    told, _ = waiting.communicate(timeout=PATIENCE)
    assert (told, waiting.returncode) == (f"{later} completed\n", 0)


def test_cancel_tells_each_job_and_each_refusal(daemon: Serving) -> None:
    first, second = (daemon.submit("greet", "--delay", "1h") for _ in range(2))
    done = daemon.run("cancel", first, first, second)
    assert done.returncode == 1
    assert done.stdout == f"{first} cancelled\n{second} cancelled\n"
    assert done.stderr.count("error: ") == 1


def test_a_running_job_is_stopped_by_cancel(daemon: Serving) -> None:
    job_id = daemon.at_the_gate()
    assert daemon.run("cancel", job_id).returncode == 0
    assert daemon.run("wait", job_id).stdout == f"{job_id} cancelled\n"


def test_run_starts_a_scheduled_job_now(daemon: Serving) -> None:
    job_id = daemon.submit("greet", "--delay", "1h")
    done = daemon.run("run", job_id, "--json")
    assert json.loads(done.stdout)["id"] == job_id
    assert daemon.run("wait", job_id).returncode == 0
    assert daemon.run("run", job_id).returncode == 1


def test_progress_is_reported_from_inside_a_job(daemon: Serving) -> None:
    job_id = daemon.submit("report")
    until(lambda: daemon.job(job_id)["progress"])
    assert daemon.job(job_id)["progress"] == {"percent": 40, "message": "resizing"}
    assert "40 % resizing" in daemon.run("show", job_id).stdout
    daemon.open_gate()
    assert daemon.run("wait", job_id).returncode == 0


def test_progress_under_a_lease_that_is_over_exits_1(daemon: Serving) -> None:
    done = daemon.run("progress", "50", JOB_LEASE_TOKEN="long-gone")
    assert done.returncode == 1
    assert "no longer holds the job" in done.stderr
