"""Remote workers that misbehave: what they were given is neither stranded nor ended twice."""

from __future__ import annotations

import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving
from tests.api.support import PATIENCE, until

REMOTE = """
[types.task]
remote = true
max_retries = 3
[types.large]
remote = true
[types.told]
command = ["sh", "-c", 'echo $JOB_LEASE_TOKEN; . ./gate.sh']
cwd = "{place}"
max_retries = 3
"""


@pytest.fixture
def remote(serve: Serve) -> Serving:
    return serve(REMOTE + GATED)


def lease_request(kind: str, most: int = 1) -> bytes:
    """What a worker sends that waits for jobs."""
    wish = {"types": [kind], "max": most, "wait_seconds": 60, "worker": "w"}
    body = json.dumps(wish).encode()
    head = "POST /leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask_for_jobs(remote: Serving, kind: str, most: int = 1) -> socket.socket:
    """A worker that has asked and not looked at the answer yet."""
    connection = remote.connection()
    connection.connect()
    connection.sock.sendall(lease_request(kind, most))
    return connection.sock


def read_jobs(answer: bytes) -> list[Any]:
    """The jobs in an answer; none when there is no whole answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    jobs: list[Any] = json.loads(body)["jobs"] if head.startswith(b"HTTP/1.1 200") else []
    return jobs


def lease(remote: Serving, kind: str = "task", most: int = 1, wait: float = PATIENCE) -> list[Any]:
    wish = {"types": [kind], "max": most, "wait_seconds": wait, "worker": "w"}
    jobs: list[Any] = remote.post("/leases", wish).document["jobs"]
    return jobs


def settle(remote: Serving, *outcomes: dict[str, object]) -> list[str]:
    """What is said of each outcome."""
    reply = remote.post("/leases/settle", {"leases": outcomes})
    return [one["status"] for one in reply.document["leases"]]


def complete(remote: Serving, jobs: list[Any]) -> list[str]:
    done = [{"token": job["lease"]["token"], "outcome": "completed"} for job in jobs]
    return settle(remote, *done)


def batch_of(remote: Serving, kind: str, count: int, payload: object = None) -> list[str]:
    jobs = [{"type": kind, "payload": payload}] * count
    return [job["id"] for job in remote.post("/jobs/batch", {"jobs": jobs}).document["jobs"]]


def test_an_attempt_ends_once_whoever_says_so_how_often(remote: Serving) -> None:
    job_id = remote.submit("task")["id"]
    [job] = lease(remote)
    token = job["lease"]["token"]
    for other in (job_id, f"{token}0", token.upper(), f"{job_id}.1.", "nonsense"):
        assert settle(remote, {"token": other, "outcome": "fatal"}) == ["stale"]
    ending = {"token": token, "outcome": "completed", "result": 1}
    assert settle(remote, ending, ending | {"outcome": "fatal"}) == ["ok", "stale"]
    assert settle(remote, ending | {"result": 2}) == ["stale"]
    beat = remote.post("/leases/heartbeat", {"leases": [{"token": token}]}).document["leases"]
    assert [one["status"] for one in beat] == ["stale"]
    after = remote.job(job_id)
    assert (after["status"], after["result"], after["last_error"]) == ("completed", 1, None)
    assert [one["outcome"] for one in remote.attempts(job_id)] == ["completed"]


def test_a_failure_without_a_reason_says_that_there_is_none(remote: Serving) -> None:
    remote.submit("task")
    [job] = lease(remote)
    outcome = {"token": job["lease"]["token"], "outcome": "fatal", "error": ""}
    assert settle(remote, outcome) == ["ok"]
    assert remote.job(job["id"])["last_error"] == "the worker gave no reason"


@pytest.mark.parametrize("outcome", ["completed", "retry", "released", "fatal"])
def test_what_the_daemon_runs_itself_is_ended_by_nobody_else(remote: Serving, outcome: str) -> None:
    job_id = remote.at_gate("told")
    token = remote.ask("GET", f"/jobs/{job_id}/logs").body.decode().split()[0]
    assert settle(remote, {"token": token, "outcome": outcome}) == ["stale"]
    assert remote.job(job_id)["status"] == "processing"
    remote.let_through(job_id)
    assert remote.wait(job_id)["status"] == "completed"
    assert [one["outcome"] for one in remote.attempts(job_id)] == ["completed"]


def test_a_worker_that_hangs_up_as_its_job_comes_costs_nothing(remote: Serving) -> None:
    """It ends its side at any moment around the delivery; what it is not sent is free again."""
    delivered: list[str] = []
    free: list[str] = []
    with ThreadPoolExecutor(1) as submitter:
        for number in range(60):
            with ask_for_jobs(remote, "task") as worker:
                submitting = submitter.submit(remote.submit, "task")
                # The moment is meant to be any.
                time.sleep(number / 20_000)
                worker.shutdown(socket.SHUT_WR)
                job_id = submitting.result()["id"]
                jobs = read_jobs(read_to_the_end(worker))
            (delivered if jobs else free).append(job_id)
            assert [job["id"] for job in jobs] in ([], [job_id])
            if jobs:
                assert complete(remote, jobs) == ["ok"]
            else:
                [again] = lease(remote)
                assert (again["id"], again["failures"]) == (job_id, 0)
                assert complete(remote, [again]) == ["ok"]
    print(f"{len(delivered)} delivered, {len(free)} free again")
    assert {remote.job(job_id)["status"] for job_id in delivered + free} == {"completed"}


def read_to_the_end(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def test_an_answer_that_is_not_read_to_its_end_has_delivered_nothing(remote: Serving) -> None:
    ids = [one for _ in range(4) for one in batch_of(remote, "large", 50, "x" * 60_000)]
    with ask_for_jobs(remote, "large", 200) as worker:
        until(lambda: remote.type_counts("large").get("processing") == 200)
        assert worker.recv(100_000)
    again = [job for _ in range(4) for job in lease(remote, "large", 50)]
    assert sorted(job["id"] for job in again) == sorted(ids)
    assert {(job["attempt"], job["failures"]) for job in again} == {(2, 0)}


def test_hundreds_of_workers_wait_through_a_reload_and_part_at_the_end(remote: Serving) -> None:
    workers = [ask_for_jobs(remote, "task") for _ in range(500)]
    until(lambda: remote.get("/stats")["remote"]["waiting"] == 500)
    remote.signal(signal.SIGHUP)
    remote.until_logged("configuration reloaded")
    ids = batch_of(remote, "task", 100)
    until(lambda: remote.type_counts("task") == {"processing": 100})
    remote.signal(signal.SIGTERM)
    answers = [read_jobs(read_to_the_end(worker)) for worker in workers]
    for worker in workers:
        worker.close()
    assert sorted(job["id"] for jobs in answers for job in jobs) == sorted(ids)
    assert {len(jobs) for jobs in answers} == {0, 1}
    assert remote.process.wait(PATIENCE) == 0
    remote.start()
    assert complete(remote, [job for jobs in answers for job in jobs]) == ["ok"] * 100
