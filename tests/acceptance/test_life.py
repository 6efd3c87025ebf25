"""The life of a job, seen over HTTP from submission to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.acceptance.support import Serving
from tests.api.support import Reply, until

PUNCTUAL = 500
"""Milliseconds that a start may be late on a busy machine."""


def moment(text: str) -> int:
    """Milliseconds since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def in_a_moment(milliseconds: int) -> str:
    return (datetime.now(UTC) + timedelta(milliseconds=milliseconds)).isoformat()


def lateness(job: dict[str, Any]) -> int:
    """Milliseconds between the time a job was due and the time it started."""
    return moment(job["started_at"]) - moment(job["run_at"])


def outcomes(daemon: Serving, job_id: str) -> list[str]:
    return [attempt["outcome"] for attempt in daemon.attempts(job_id)]


def failed_once(daemon: Serving) -> str:
    """A job that has failed and would run again in an hour."""
    job_id: str = daemon.submit("later")["id"]
    daemon.until_status(job_id, "retrying")
    return job_id


def test_a_submission_can_wait_for_its_result(daemon: Serving) -> None:
    reply = daemon.post("/jobs?wait=20", {"type": "echo", "payload": {"name": "world"}})
    assert reply.status == 201
    job = reply.document
    assert reply.headers["Location"] == f"/jobs/{job['id']}"
    assert (job["status"], job["result"]) == ("completed", {"name": "world"})
    assert (job["attempt"], job["failures"], job["last_error"]) == (1, 0, None)


def test_a_wait_that_is_too_short_shows_the_job_as_it_is(daemon: Serving) -> None:
    job_id = daemon.at_gate()
    assert daemon.get(f"/jobs/{job_id}?wait=0.05")["status"] == "processing"
    daemon.let_through(job_id)
    assert daemon.wait(job_id)["status"] == "completed"


def test_failures_are_retried_with_growing_pauses_until_the_job_is_dead(daemon: Serving) -> None:
    job = daemon.finish("fail")
    assert (job["status"], job["attempt"], job["failures"]) == ("dead", 3, 3)
    assert "it went wrong" in job["last_error"]
    attempts = daemon.attempts(job["id"])
    assert [one["outcome"] for one in attempts] == ["failed"] * 3
    assert [one["exit_code"] for one in attempts] == [3] * 3
    for (before, after), pause in zip(pairwise(attempts), (100, 300), strict=True):
        waited = moment(after["started_at"]) - moment(before["finished_at"])
        assert pause <= waited < pause + PUNCTUAL


def test_a_fatal_exit_ends_a_job_at_once(daemon: Serving) -> None:
    job = daemon.finish("hopeless")
    assert (job["status"], job["attempt"], job["max_retries"]) == ("dead", 1, 5)
    assert outcomes(daemon, job["id"]) == ["fatal"]


def test_a_handler_that_takes_too_long_is_stopped_with_all_it_started(daemon: Serving) -> None:
    before = daemon.processes()
    job = daemon.finish("endless")
    assert (job["status"], outcomes(daemon, job["id"])) == ("dead", ["timeout"])
    assert daemon.attempts(job["id"])[0]["duration_ms"] >= 300
    assert "timed out after 300ms" in job["last_error"]
    # The launcher may have been started by this very job.
    assert len(daemon.processes() - before - {daemon.launcher()}) == 0


def test_cancelling_a_job_that_waits(daemon: Serving) -> None:
    job_id = daemon.submit("echo", delay_seconds=3600)["id"]
    reply = daemon.post(f"/jobs/{job_id}/cancel")
    assert (reply.status, reply.document["status"]) == (200, "cancelled")
    assert daemon.attempts(job_id) == []
    assert daemon.post(f"/jobs/{job_id}/cancel").status == 409


def test_cancelling_a_job_that_runs(daemon: Serving) -> None:
    job_id = daemon.at_gate()
    assert daemon.post(f"/jobs/{job_id}/cancel").status == 200
    job = daemon.wait(job_id)
    assert (job["status"], job["failures"]) == ("cancelled", 0)
    assert outcomes(daemon, job_id) == ["cancelled"]


def test_running_a_scheduled_job_now(daemon: Serving) -> None:
    job_id = daemon.submit("echo", delay_seconds=3600)["id"]
    assert daemon.post(f"/jobs/{job_id}/run").status == 200
    assert daemon.wait(job_id)["status"] == "completed"
    assert daemon.post(f"/jobs/{job_id}/run").status == 409


def test_running_a_retrying_job_now(daemon: Serving) -> None:
    job_id = failed_once(daemon)
    assert daemon.post(f"/jobs/{job_id}/run").status == 200
    assert daemon.wait(job_id)["status"] == "completed"
    assert outcomes(daemon, job_id) == ["failed", "completed"]


def test_cancelling_a_job_between_two_attempts(daemon: Serving) -> None:
    job_id = failed_once(daemon)
    assert daemon.post(f"/jobs/{job_id}/cancel").document["status"] == "cancelled"
    assert outcomes(daemon, job_id) == ["failed"]


def test_a_job_that_did_not_start_in_time_expires(daemon: Serving) -> None:
    expires_at = in_a_moment(300)
    job = daemon.submit("later", expires_at=expires_at)
    daemon.until_status(job["id"], "retrying")
    ended = daemon.wait(job["id"])
    assert ended["status"] == "expired"
    assert 0 <= moment(ended["finished_at"]) - moment(expires_at) + 1 < PUNCTUAL


def test_a_job_that_has_started_does_not_expire(daemon: Serving) -> None:
    job_id = daemon.at_gate(expires_in_seconds=0.3)
    assert daemon.get(f"/jobs/{job_id}?wait=0.5")["status"] == "processing"
    daemon.let_through(job_id)
    assert daemon.wait(job_id)["status"] == "completed"


def test_a_delayed_job_starts_in_time(daemon: Serving) -> None:
    job = daemon.submit("echo", delay_seconds=0.4)
    assert job["status"] == "scheduled"
    ended = daemon.wait(job["id"])
    assert moment(ended["run_at"]) - moment(ended["created_at"]) == 400
    assert 0 <= lateness(ended) < PUNCTUAL


def test_a_job_for_a_moment_starts_then(daemon: Serving) -> None:
    run_at = in_a_moment(400)
    ended = daemon.finish("echo", run_at=run_at)
    assert abs(moment(ended["run_at"]) - moment(run_at)) <= 1
    assert 0 <= lateness(ended) < PUNCTUAL


def test_an_earlier_job_overtakes_one_that_is_scheduled_already(daemon: Serving) -> None:
    far = daemon.submit("echo", delay_seconds=3600)["id"]
    near = daemon.finish("echo", delay_seconds=0.2)
    assert near["status"] == "completed"
    assert daemon.job(far)["status"] == "scheduled"


def test_a_paced_batch_is_spread(daemon: Serving) -> None:
    jobs = [{"type": "echo", "payload": number} for number in range(6)]
    batch = daemon.post("/jobs/batch", {"jobs": jobs, "pace_per_second": 20}).document
    ended = [daemon.wait(job["id"]) for job in batch["jobs"]]
    first = moment(ended[0]["run_at"])
    assert [moment(job["run_at"]) - first for job in ended] == [0, 50, 100, 150, 200, 250]
    assert all(0 <= lateness(job) < PUNCTUAL for job in ended)


def test_a_batch_shows_how_far_it_is(daemon: Serving) -> None:
    jobs = [{"type": "echo"}, {"type": "gate"}, {"type": "hopeless"}]
    batch = daemon.post("/jobs/batch", {"jobs": jobs}).document
    place = f"/batches/{batch['batch_id']}"
    until(lambda: daemon.get(place)["counts"] == {"completed": 1, "processing": 1, "dead": 1})
    under_way = daemon.get(place)
    assert (under_way["total"], under_way["done"], under_way["finished_at"]) == (3, False, None)
    daemon.let_through(batch["jobs"][1]["id"])
    daemon.wait(batch["jobs"][1]["id"])
    ended = daemon.get(place)
    assert (ended["done"], ended["counts"]) == (True, {"completed": 2, "dead": 1})
    assert ended["finished_at"] is not None


def test_a_batch_is_stored_whole_or_not_at_all(daemon: Serving) -> None:
    before = daemon.stored()
    reply = daemon.post("/jobs/batch", {"jobs": [{"type": "echo"}, {"type": "nobody"}]})
    assert (reply.status, reply.fields) == (400, ["jobs[1].type"])
    assert daemon.stored() == before


def submit_with_key(daemon: Serving, key: str, payload: object) -> Reply:
    return daemon.post("/jobs", {"type": "echo", "payload": payload}, Idempotency_Key=key)


def test_the_same_key_again_finds_the_same_job(daemon: Serving) -> None:
    first = submit_with_key(daemon, "order-1", {"n": 1})
    again = submit_with_key(daemon, "order-1", {"n": 1.0})
    assert (first.status, again.status) == (201, 200)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert again.document["id"] == first.document["id"]
    assert len(daemon.get("/jobs?idempotency_key=order-1")["jobs"]) == 1


def test_a_key_cannot_be_used_for_something_else(daemon: Serving) -> None:
    first = submit_with_key(daemon, "order-2", {"n": 1}).document
    other = submit_with_key(daemon, "order-2", {"n": 2})
    assert (other.status, other.document["code"]) == (422, "idempotency_key_reused")
    assert daemon.wait(first["id"])["result"] == {"n": 1}


def test_the_time_to_expiry_counts_from_the_submission(daemon: Serving) -> None:
    """As the check of a submission counts it, which wants it later than the delay."""
    refused = daemon.post("/jobs", {"type": "echo", "delay_seconds": 9, "expires_in_seconds": 5})
    assert (refused.status, refused.fields) == (400, ["expires_in_seconds"])
    job = daemon.submit("echo", delay_seconds=3600, expires_in_seconds=7200)
    assert moment(job["expires_at"]) - moment(job["created_at"]) == 7_200_000
