"""One exchange with a daemon, over real sockets, and everything that can go wrong in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobqueued.client import daemon as client
from jobqueued.client.address import Address
from jobqueued.client.daemon import Daemon, job_path
from jobqueued.client.errors import BadAddress, ClientError, FieldError, Problem, Unreachable
from tests.client.support import answer


def test_a_get_sends_path_query_and_key(server: Any) -> None:
    server.answers.append(answer(b'{"a": 12345678901234567890123.50}'))
    got = Daemon([server.address], "secret\n").get("/jobs", [("type", "a b"), ("status", "dead")])
    request = server.requests[0].decode()
    assert request.startswith("GET /jobs?type=a+b&status=dead HTTP/1.1\r\n")
    assert "Authorization: Bearer secret\r\n" in request
    assert got.status == 200
    assert got.body == b'{"a": 12345678901234567890123.50}'


def test_a_post_sends_json(server: Any) -> None:
    server.answers.append(answer(b'{"id": "x"}', "201 Created", "Idempotency-Replayed: true"))
    got = Daemon([server.address]).post("/jobs", b'{"type": "hello"}')
    request = server.requests[0]
    assert request.startswith(b"POST /jobs HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\n" in request
    assert b"Authorization" not in request
    assert request.endswith(b'\r\n\r\n{"type": "hello"}')
    assert got.document() == {"id": "x"}
    assert got.headers["Idempotency-Replayed"] == "true"


def test_an_action_without_a_body_sends_none(server: Any) -> None:
    server.answers.append(answer(b"{}"))
    Daemon([server.address]).post("/jobs/x/cancel")
    assert b"Content-Length: 0\r\n" in server.requests[0]
    assert b"Content-Type" not in server.requests[0]


def test_a_problem_document_becomes_an_exception(server: Any) -> None:
    document = {
        "status": 400,
        "code": "invalid",
        "detail": "2 fields are not valid",
        "errors": [{"field": "priority", "message": "too high"}, {"field": "key", "message": "no"}],
    }
    server.answers.append(
        answer(json.dumps(document).encode(), "429 Too Many Requests", "Retry-After: 3")
    )
    with pytest.raises(Problem) as caught:
        Daemon([server.address]).get("/jobs")
    problem = caught.value
    assert (problem.status, problem.code, problem.retry_after) == (429, "invalid", "3")
    assert problem.detail == str(problem) == "2 fields are not valid"
    assert problem.errors == (FieldError("priority", "too high"), FieldError("key", "no"))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": 1}', b"\xff", b""])
def test_an_error_without_a_problem_document_tells_its_status(server: Any, body: bytes) -> None:
    server.answers.append(answer(body, "502 Bad Gateway"))
    with pytest.raises(Problem, match="502 Bad Gateway") as caught:
        Daemon([server.address]).get("/jobs")
    assert caught.value.errors == ()


def test_what_is_not_json_is_not_jobqueued(server: Any) -> None:
    server.answers.append(answer(b"hello"))
    with pytest.raises(ClientError, match="is not jobqueued"):
        Daemon([server.address]).get("/stats").document()


@pytest.mark.parametrize(
    "cut", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", b"SSH-2\r\n"]
)
def test_an_answer_that_breaks_off_is_unreachable(server: Any, cut: bytes) -> None:
    server.answers.append(cut)
    with pytest.raises(Unreachable, match="broke off") as caught:
        Daemon([server.address]).get("/jobs")
    assert caught.value.exit_code == 69


def test_a_stream_is_read_to_its_end(server: Any) -> None:
    chunks = b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"
    server.answers.append(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert b"".join(Daemon([server.address]).stream("/jobs/x/logs")) == b"firstsecond"


def test_a_stream_that_breaks_off_is_told(server: Any) -> None:
    server.answers.append(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    stream = Daemon([server.address]).stream("/jobs/x/logs")
    assert next(stream) == b"first"
    with pytest.raises(Unreachable, match="broke off"):
        next(stream)


def test_a_silent_daemon_is_given_up(
    silent_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.05)
    with pytest.raises(Unreachable, match="did not answer in time"):
        Daemon([silent_address]).get("/stats", wait=0.05)


def test_the_first_address_that_accepts_is_kept(server: Any, tmp_path: Path) -> None:
    missing = Address(str(tmp_path / "missing.sock"))
    server.answers += [answer(b"1"), answer(b"2")]
    daemon = Daemon([missing, server.address, missing])
    assert [daemon.get("/a").body, daemon.get("/b").body] == [b"1", b"2"]
    assert daemon.addresses == [server.address]


def test_all_that_was_tried_is_named(tmp_path: Path) -> None:
    first, second = Address(str(tmp_path / "a.sock")), Address(str(tmp_path / "b.sock"))
    with pytest.raises(Unreachable) as caught:
        Daemon([first, second]).get("/stats")
    assert f"{first}: No such file or directory; {second}: No such" in str(caught.value)


def test_a_socket_path_that_is_too_long_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="too long"):
        Daemon([Address("/" + "x" * 200)]).get("/stats")


def test_a_key_no_header_can_carry_is_refused(server: Any) -> None:
    with pytest.raises(BadAddress, match="JOBQUEUED_KEY"):
        Daemon([server.address], "a\nb").get("/stats")
    assert server.requests == []


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    assert job_path("../stats?x=1#", "logs") == "/jobs/..%2Fstats%3Fx%3D1%23/logs"
