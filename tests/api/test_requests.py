"""What each call does, asked of a real daemon."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from tests.api.support import JSON, Daemon, until


def test_a_submitted_job_is_answered_with_its_place(daemon: Daemon) -> None:
    reply = daemon.post("/jobs", {"type": "echo", "payload": {"n": 1}})
    job = reply.document
    assert reply.status == 201
    assert reply.headers["Location"] == f"/jobs/{job['id']}"
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Server"] == "jobqueued"
    assert "Idempotency-Replayed" not in reply.headers
    assert (job["type"], job["payload"], job["priority"]) == ("echo", {"n": 1}, 5)
    assert daemon.get(reply.headers["Location"])["id"] == job["id"]


def test_a_payload_comes_back_as_it_was_sent(daemon: Daemon) -> None:
    payload = '{"z":123456789012345678901234567890, "a":[1.0,1e2,"ü\\u0000"]}'.encode()
    reply = daemon.ask("POST", "/jobs?wait=20", b'{"type":"echo","payload":' + payload + b"}")
    assert b'"payload":' + payload in reply.body
    assert b'"result":' in reply.body
    job_id = reply.document["id"]
    assert b'"payload":' + payload in daemon.ask("GET", f"/jobs/{job_id}").body


def test_waiting_answers_when_the_job_is_terminal(daemon: Daemon) -> None:
    reply = daemon.post("/jobs?wait=20", {"type": "echo", "payload": 7})
    assert (reply.status, reply.document["status"]) == (201, "completed")
    assert reply.document["result"] == 7


def test_waiting_ends_when_the_time_is_up(daemon: Daemon) -> None:
    job = daemon.submit("echo", delay_seconds=3600)
    assert daemon.get(f"/jobs/{job['id']}?wait=0.05")["status"] == "scheduled"
    assert daemon.get(f"/jobs/{job['id']}?wait=0")["status"] == "scheduled"


@pytest.mark.parametrize("as_header", [True, False])
def test_the_same_key_again_answers_with_the_same_job(daemon: Daemon, as_header: bool) -> None:
    key = f"key-{as_header}"
    body = {"type": "echo", "payload": {"a": 1, "b": 2}}
    first = daemon.post("/jobs", body | {"idempotency_key": key})
    again = {"type": "echo", "payload": {"b": 2, "a": 1.0}}
    if as_header:
        second = daemon.post("/jobs", again, Idempotency_Key=key)
    else:
        second = daemon.post("/jobs", again | {"idempotency_key": key})
    assert (first.status, second.status) == (201, 200)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.document["id"] == first.document["id"]


def test_the_same_key_for_something_else_is_refused(daemon: Daemon) -> None:
    daemon.submit("echo", payload=1, idempotency_key="taken")
    reply = daemon.post("/jobs", {"type": "echo", "payload": 2, "idempotency_key": "taken"})
    assert (reply.status, reply.document["code"]) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("number", [b"1e999", b"1e99999999999999999999", b"9" * 900])
def test_numbers_of_any_size_can_be_compared(daemon: Daemon, number: bytes) -> None:
    key = f'"number-{number[:8].decode()}-{len(number)}"'.encode()
    body = b'{"type":"echo","idempotency_key":' + key + b',"payload":'
    assert daemon.ask("POST", "/jobs", body + number + b"}").status == 201
    assert daemon.ask("POST", "/jobs", body + b"[" + number + b"]}").status == 422
    assert daemon.ask("POST", "/jobs", body + b" " + number + b"}").status == 200


def test_the_deepest_payload_can_be_compared(daemon: Daemon) -> None:
    nested = b"[" * 128 + b"%s" + b"]" * 128
    body = b'{"type":"echo","idempotency_key":"deep","payload":' + nested + b"}"
    assert daemon.ask("POST", "/jobs", body % b"").status == 201
    assert daemon.ask("POST", "/jobs", body % b" ").status == 200


def test_a_batch_is_stored_in_order(daemon: Daemon) -> None:
    jobs = [{"type": "echo", "payload": number} for number in range(5)]
    reply = daemon.post("/jobs/batch", {"jobs": jobs})
    document = reply.document
    assert reply.status == 201
    assert [job["payload"] for job in document["jobs"]] == [0, 1, 2, 3, 4]
    assert document["replayed"] == []
    assert {job["batch_id"] for job in document["jobs"]} == {document["batch_id"]}
    assert reply.headers["Location"] == f"/batches/{document['batch_id']}"
    batch = until(lambda: _if_done(daemon, document["batch_id"]))
    assert (batch["total"], batch["counts"]) == (5, {"completed": 5})
    assert batch["finished_at"] >= batch["created_at"]


def _if_done(daemon: Daemon, batch_id: str) -> Any:
    batch = daemon.get(f"/batches/{batch_id}")
    return batch if batch["done"] else None


def test_a_used_key_in_a_batch_answers_with_the_job_it_made(daemon: Daemon) -> None:
    first = daemon.submit("echo", idempotency_key="in-a-batch")
    jobs = [{"type": "echo"}, {"type": "echo", "idempotency_key": "in-a-batch"}]
    document = daemon.post("/jobs/batch", {"jobs": jobs}).document
    assert document["replayed"] == [1]
    assert document["jobs"][1]["id"] == first["id"]


def test_a_pace_spreads_a_batch(daemon: Daemon) -> None:
    jobs = [{"type": "echo"}] * 3
    document = daemon.post("/jobs/batch", {"jobs": jobs, "pace_per_second": 0.01}).document
    times = [job["run_at"] for job in document["jobs"]]
    assert times == sorted(set(times))


def test_a_list_goes_on_where_it_ended(daemon: Daemon) -> None:
    ids = [daemon.submit("echo", correlation_id="paged")["id"] for _ in range(5)][::-1]
    first = daemon.get("/jobs?correlation_id=paged&limit=3")
    rest = daemon.get(f"/jobs?correlation_id=paged&limit=3&cursor={first['next_cursor']}")
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids
    assert rest["next_cursor"] is None


def test_a_list_is_filtered(daemon: Daemon) -> None:
    done = daemon.finish("echo", key="filtered")
    dead = daemon.finish("fail", key="filtered")
    later = daemon.submit("echo", key="filtered", delay_seconds=3600)

    def found(query: str) -> list[str]:
        return [job["id"] for job in daemon.get(f"/jobs?key=filtered{query}")["jobs"]]

    assert found("") == [later["id"], dead["id"], done["id"]]
    assert found("&status=dead&status=scheduled") == [later["id"], dead["id"]]
    assert found("&type=fail") == [dead["id"]]
    assert found(f"&created_before={done['created_at']}") == []
    assert found("&created_after=2100-01-01T00:00:00Z") == []


def test_a_waiting_job_can_be_cancelled_once(daemon: Daemon) -> None:
    job = daemon.submit("echo", delay_seconds=3600)
    assert daemon.post(f"/jobs/{job['id']}/cancel").document["status"] == "cancelled"
    reply = daemon.post(f"/jobs/{job['id']}/cancel", {})
    assert (reply.status, reply.document["code"]) == (409, "conflict")


def test_a_running_job_can_be_cancelled(daemon: Daemon) -> None:
    job = daemon.at_the_gate()
    assert daemon.post(f"/jobs/{job['id']}/cancel").status == 200
    assert daemon.get(f"/jobs/{job['id']}?wait=20")["status"] == "cancelled"


def test_a_scheduled_job_can_be_run_now(daemon: Daemon) -> None:
    job = daemon.submit("echo", delay_seconds=3600)
    assert daemon.post(f"/jobs/{job['id']}/run").status == 200
    assert daemon.get(f"/jobs/{job['id']}?wait=20")["status"] == "completed"
    assert daemon.post(f"/jobs/{job['id']}/run").status == 409


def test_a_retrying_job_can_be_run_now(daemon: Daemon) -> None:
    job = daemon.submit("again")
    until(lambda: daemon.get(f"/jobs/{job['id']}")["status"] == "retrying")
    assert daemon.post(f"/jobs/{job['id']}/run").status == 200
    until(lambda: daemon.get(f"/jobs/{job['id']}")["failures"] == 2)


def test_attempts_say_how_they_ended(daemon: Daemon) -> None:
    job = daemon.finish("fail")
    (attempt,) = daemon.get(f"/jobs/{job['id']}/attempts")["attempts"]
    assert (attempt["number"], attempt["outcome"], attempt["exit_code"]) == (1, "failed", 3)
    assert attempt["duration_ms"] >= 0
    assert attempt["http_status"] is None


def test_a_log_is_plain_text(daemon: Daemon) -> None:
    job = daemon.finish("fail")
    reply = daemon.ask("GET", f"/jobs/{job['id']}/logs")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"it went wrong" in reply.body
    assert daemon.ask("GET", f"/jobs/{job['id']}/logs?attempt=1").body == reply.body
    assert daemon.ask("GET", f"/jobs/{job['id']}/logs?attempt=2").status == 404
    assert daemon.ask("GET", f"/jobs/{job['id']}/logs?attempt=2&follow=1").status == 404


def test_a_log_can_be_followed_to_its_end(daemon: Daemon) -> None:
    job = daemon.at_the_gate()
    connection = daemon.connection()
    connection.request("GET", f"/jobs/{job['id']}/logs?follow=1")
    response = connection.getresponse()
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert response.headers["Server"] == "jobqueued"
    assert b"token" in response.readline()
    daemon.open_gate("finished")
    assert b"finished" in response.read()
    connection.close()


def test_a_follower_that_leaves_does_not_disturb(daemon: Daemon) -> None:
    job = daemon.at_the_gate()
    connection = daemon.connection()
    connection.request("GET", f"/jobs/{job['id']}/logs?follow=1")
    assert connection.getresponse().readline()
    connection.close()
    daemon.open_gate()
    assert daemon.get(f"/jobs/{job['id']}?wait=20")["status"] == "completed"


def test_a_token_reports_progress(daemon: Daemon) -> None:
    job = daemon.at_the_gate()
    token = until(lambda: _token(daemon, job["id"]))
    beats = [
        {"token": token, "extend_seconds": 30, "progress": {"percent": 40, "message": "half"}},
        {"token": "no-such-token"},
    ]
    first, second = daemon.post("/leases/heartbeat", {"leases": beats}).document["leases"]
    assert (first["token"], first["status"]) == (token, "ok")
    assert first["expires_at"]
    assert (second["status"], second["expires_at"]) == ("stale", None)
    progress = daemon.get(f"/jobs/{job['id']}")["progress"]
    assert progress == {"percent": 40, "message": "half"}
    daemon.open_gate()


def _token(daemon: Daemon, job_id: str) -> str:
    words = daemon.ask("GET", f"/jobs/{job_id}/logs").body.decode().split()
    return words[words.index("token") + 1] if "token" in words and words[-1] != "token" else ""


def test_head_has_the_headers_of_get_and_no_body(daemon: Daemon) -> None:
    got, headed = daemon.ask("GET", "/healthz"), daemon.ask("HEAD", "/healthz")
    assert (headed.status, headed.body) == (200, b"")
    assert headed.headers["Content-Length"] == got.headers["Content-Length"]


def test_the_daemon_says_how_it_is(daemon: Daemon) -> None:
    assert daemon.get("/healthz") == {"status": "ok"}
    assert daemon.get("/readyz") == {"ready": True, "reasons": []}
    stats = daemon.get("/stats")
    assert stats["ready"] is True
    assert {"version", "started_at", "uptime_seconds", "counts", "types", "pools"} <= set(stats)


def test_the_daemon_describes_itself(daemon: Daemon) -> None:
    assert "/jobs/{id}/cancel" in daemon.get("/openapi.json")["paths"]


def test_a_full_queue_says_when_to_come_back(own_daemon: Daemon) -> None:
    jobs = [{"type": "echo", "delay_seconds": 3600}] * 5
    for _ in range(40):
        assert own_daemon.post("/jobs/batch", {"jobs": jobs}).status == 201
    reply = own_daemon.post("/jobs", {"type": "echo"})
    assert (reply.status, reply.document["code"]) == (429, "queue_full")
    assert int(reply.headers["Retry-After"]) >= 1
    assert own_daemon.stored() == 200


def test_one_connection_serves_many_requests(daemon: Daemon) -> None:
    connection = daemon.connection(over_unix=True)
    for body in (b'{"type":"echo"}', b"{", b'{"type":"echo"}'):
        connection.request("POST", "/jobs", body, JSON)
        connection.getresponse().read()
        assert connection.sock is not None
    connection.close()


def test_pipelined_requests_are_answered_in_order(daemon: Daemon) -> None:
    request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    sent = (
        request % (b"healthz", b"")
        + request % (b"x", b"")
        + request
        % (
            b"readyz",
            b"Connection: close\r\n",
        )
    )
    answers = daemon.raw(sent).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"404", b"200"]


def test_a_body_in_chunks_after_a_go_ahead(daemon: Daemon) -> None:
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", daemon.port), 20) as connection:
        connection.sendall(head)
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'8\r\n{"type":\r\n7\r\n"echo"}\r\n0\r\n\r\n')
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_http_1_0_is_answered(daemon: Daemon) -> None:
    once = daemon.raw(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert once.endswith(b'{"status":"ok"}')
    assert b"Connection: close" in once


def test_a_stopping_daemon_answers_who_waits(own_daemon: Daemon) -> None:
    job = own_daemon.at_the_gate()
    answers: list[int] = []

    def wait() -> None:
        answers.append(own_daemon.ask("GET", f"/jobs/{job['id']}?wait=60").status)

    waiter = threading.Thread(target=wait)
    waiter.start()
    follower = own_daemon.connection()
    follower.request("GET", f"/jobs/{job['id']}/logs?follow=1")
    response = follower.getresponse()
    assert response.readline()
    assert own_daemon.stop() == 0
    waiter.join(20)
    assert answers == [200]
    response.read()
    follower.close()
    assert not own_daemon.socket_path.exists()
    assert "Traceback" not in own_daemon.log()


def test_any_json_value_is_a_payload(daemon: Daemon) -> None:
    payloads: list[object] = [0, "", False, [], {}, "text", [None], 1.5]
    for payload in payloads:
        document = daemon.post("/jobs", {"type": "echo", "payload": payload}).document
        assert json.dumps(document["payload"]) == json.dumps(payload)


def test_a_job_runs_though_its_client_hung_up(daemon: Daemon) -> None:
    body = b'{"type":"echo","key":"hung-up"}'
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", daemon.port), 20) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def all_done() -> bool:
        jobs = daemon.get("/jobs?key=hung-up")["jobs"]
        return len(jobs) == 20 and all(job["status"] == "completed" for job in jobs)

    until(all_done)
