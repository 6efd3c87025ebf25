"""What a handler says while it runs and leaves when it ends."""

from __future__ import annotations

from tests.acceptance.support import Serving


def test_the_log_streams_while_the_job_runs(daemon: Serving) -> None:
    job_id = daemon.at_gate()
    connection = daemon.connection()
    connection.request("GET", f"/jobs/{job_id}/logs?follow=1")
    stream = connection.getresponse()
    assert stream.readline() == b"at the gate\n"
    assert daemon.job(job_id)["status"] == "processing"
    daemon.let_through(job_id, "onwards")
    assert stream.read() == b"onwards\n"
    connection.close()
    assert daemon.wait(job_id)["status"] == "completed"
    assert daemon.ask("GET", f"/jobs/{job_id}/logs").body == b"at the gate\nonwards\n"


def test_following_goes_on_over_retries(daemon: Serving) -> None:
    job_id = daemon.submit("fail", delay_seconds=0.2)["id"]
    assert daemon.ask("GET", f"/jobs/{job_id}/logs?follow=1").body == b"it went wrong\n" * 3
    assert daemon.ask("GET", f"/jobs/{job_id}/logs?attempt=2").body == b"it went wrong\n"


def test_a_running_command_reports_its_progress(daemon: Serving) -> None:
    job_id = daemon.at_gate("report")
    assert daemon.job(job_id)["progress"] == {"percent": 40, "message": "resizing"}
    daemon.let_through(job_id)
    assert daemon.wait(job_id)["status"] == "completed"


def test_attempts_tell_what_was_used(daemon: Serving) -> None:
    job = daemon.finish("worker")
    (attempt,) = daemon.attempts(job["id"])
    assert (attempt["outcome"], attempt["exit_code"]) == ("completed", 0)
    assert attempt["cpu_ms"] >= 100
    assert attempt["max_rss_bytes"] >= 50_000_000
    assert attempt["duration_ms"] >= attempt["cpu_ms"] * 0.5


def test_an_attempt_under_way_is_listed(daemon: Serving) -> None:
    job_id = daemon.at_gate()
    (attempt,) = daemon.attempts(job_id)
    assert (attempt["number"], attempt["outcome"], attempt["finished_at"]) == (1, None, None)
    daemon.let_through(job_id)
    assert daemon.wait(job_id)["status"] == "completed"


def test_standard_output_is_the_result(daemon: Serving) -> None:
    assert daemon.finish("greet")["result"] == "hello, you"
    payload = {"z": 1, "a": [123456789012345678901234567890, None, "ü"]}
    job = daemon.finish("echo", payload=payload)
    assert job["result"] == payload
    assert list(job["result"]) == ["z", "a"]
