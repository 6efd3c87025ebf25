"""Whatever a client sends, the answer is a problem document that says what to do."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.support import JSON, Daemon, Reply

ID = "01a1edeb-c0e8-7000-ae67-cc325cd735cb"
BIG = b'{"type":"echo","payload":"' + b"x" * 300_000 + b'"}'
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def assert_problem(reply: Reply, status: int, code: str) -> None:
    document = reply.document
    assert (reply.status, document["code"]) == (status, code), reply
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert document["status"] == status
    assert document["type"] == f"urn:jobqueued:problem:{code}"
    assert document["title"]
    assert document["detail"]
    assert reply.headers["X-Request-Id"] == document["request_id"]


BODIES = [
    (b"", 400, "invalid_request", ["body"]),
    (b"{", 400, "malformed_json", ["body"]),
    (b"[]", 400, "invalid_request", ["body"]),
    (b"\xff", 400, "malformed_json", []),
    (b'{"type":"echo","payload":"\xff"}', 400, "malformed_json", []),
    (b'{"type":"echo","payload":NaN}', 400, "malformed_json", ["body"]),
    (b'{"type":"echo","payload":"\\ud800"}', 400, "malformed_json", ["body"]),
    (b'{"type":"echo","payload":' + b"[" * 100_000, 400, "malformed_json", ["body"]),
    (b"{}", 400, "invalid_request", ["type"]),
    (b'{"type":"ecko"}', 400, "unknown_type", ["type"]),
    (b'{"type":"echo","priority":10,"tpye":1}', 400, "invalid_request", ["priority", "tpye"]),
    (b'{"type":"echo","key":"a\\u0000b"}', 400, "invalid_request", ["key"]),
    (json.dumps({"type": "echo", "payload": "x" * 1023}).encode(), 413, "payload_too_large", None),
    (BIG, 413, "body_too_large", []),
]


@pytest.mark.parametrize(("body", "status", "code", "fields"), BODIES)
def test_a_bad_job_is_refused_and_stores_nothing(
    daemon: Daemon, body: bytes, status: int, code: str, fields: list[str] | None
) -> None:
    before = daemon.stored()
    reply = daemon.ask("POST", "/jobs", body)
    assert_problem(reply, status, code)
    assert reply.fields == (["payload"] if fields is None else fields)
    assert daemon.stored() == before


def test_one_bad_job_keeps_a_whole_batch_out(daemon: Daemon) -> None:
    before = daemon.stored()
    jobs = [{"type": "echo"}, {"type": "echo", "payload": "x" * 2000}, {"type": "echo"}]
    reply = daemon.post("/jobs/batch", {"jobs": jobs})
    assert_problem(reply, 413, "payload_too_large")
    assert reply.fields == ["jobs[1].payload"]
    assert daemon.stored() == before


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", f"/jobs/{ID}", 404, "not_found"),
        ("GET", f"/jobs/{ID}?wait=5", 404, "not_found"),
        ("GET", "/jobs/x", 404, "not_found"),
        ("GET", "/jobs/%00%ff", 404, "not_found"),
        ("GET", f"/jobs/{ID}x", 404, "not_found"),
        ("GET", f"/jobs/{ID}/attempts", 404, "not_found"),
        ("GET", f"/jobs/{ID}/logs", 404, "not_found"),
        ("GET", f"/jobs/{ID}/logs?follow=1", 404, "not_found"),
        ("POST", f"/jobs/{ID}/cancel", 404, "not_found"),
        ("POST", f"/jobs/{ID}/run", 404, "not_found"),
        ("GET", f"/batches/{ID}", 404, "not_found"),
        ("GET", "/batches/%20", 404, "not_found"),
        ("DELETE", "/jobs", 405, "method_not_allowed"),
        ("GET", "/leases/heartbeat", 405, "method_not_allowed"),
        ("GET", "/jobs?limit=0", 400, "invalid_request"),
        ("GET", "/jobs?colour=red", 400, "invalid_request"),
        ("GET", "/jobs?key=%FF", 400, "bad_request"),
        ("GET", f"/jobs/{ID}?wait=soon", 400, "invalid_request"),
        ("GET", "/stats?x=1", 400, "invalid_request"),
    ],
)
def test_a_bad_address_is_refused(
    daemon: Daemon, method: str, path: str, status: int, code: str
) -> None:
    assert_problem(daemon.ask(method, path, headers={}), status, code)


def test_a_wrong_method_says_which_are_right(daemon: Daemon) -> None:
    assert daemon.ask("PUT", "/jobs", b"{}").headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "headers",
    [{}, FORM, JSON | {"Content-Encoding": "gzip"}, {"Content-Type": "text/json; charset=latin1"}],
)
def test_what_does_not_say_it_is_json_is_refused(daemon: Daemon, headers: dict[str, str]) -> None:
    assert_problem(
        daemon.ask("POST", "/jobs", b'{"type":"echo"}', headers), 415, "unsupported_media_type"
    )


def test_the_refusal_says_how_to_fix_it_with_curl(daemon: Daemon) -> None:
    detail = daemon.ask("POST", "/jobs", b'{"type":"echo"}', FORM).document["detail"]
    assert "--json" in detail
    assert "-H 'Content-Type: application/json'" in detail


@pytest.mark.parametrize("body", [b"[]", b"5", b'{"force":true}', b"{"])
def test_an_action_takes_no_fields(daemon: Daemon, body: bytes) -> None:
    job = daemon.submit("echo", delay_seconds=3600)
    reply = daemon.ask("POST", f"/jobs/{job['id']}/cancel", body)
    assert reply.status == 400
    assert daemon.get(f"/jobs/{job['id']}")["status"] == "scheduled"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "example.com"}, "foreign_host"),
        ({"Origin": "http://example.com"}, "cross_site"),
        ({"Origin": "http://localhost:3000"}, "cross_site"),
        ({"Origin": "null"}, "cross_site"),
        ({"Sec-Fetch-Site": "cross-site"}, "cross_site"),
        ({"Sec-Fetch-Site": "same-site"}, "cross_site"),
    ],
)
def test_other_web_pages_are_kept_out(daemon: Daemon, headers: dict[str, str], code: str) -> None:
    before = daemon.stored()
    assert_problem(daemon.ask("POST", "/jobs", b'{"type":"echo"}', JSON | headers), 403, code)
    assert daemon.stored() == before


def test_our_own_page_is_let_in(daemon: Daemon) -> None:
    headers = {"Origin": f"http://127.0.0.1:{daemon.port}", "Sec-Fetch-Site": "same-origin"}
    assert daemon.ask("GET", "/healthz", headers=headers).status == 200


def test_any_name_will_do_on_the_unix_socket(daemon: Daemon) -> None:
    reply = daemon.ask("GET", "/healthz", headers={"Host": "example.com"}, over_unix=True)
    assert reply.status == 200


BROKEN = [
    b"hello\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: example.com\r\n\r\n",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n{}",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("sent", BROKEN, ids=lambda sent: repr(sent[:30]))
def test_broken_http_is_answered_with_a_problem_too(daemon: Daemon, sent: bytes) -> None:
    head, _, body = daemon.raw(sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Content-Type: application/problem+json" in head
    assert b"Connection: close" in head
    assert json.loads(body)["code"] == "bad_request"


def test_a_proxied_address_of_another_host_is_refused(daemon: Daemon) -> None:
    head = b"GET http://example.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert daemon.raw(head).startswith(b"HTTP/1.1 403 ")


def test_a_client_that_announces_too_much_is_refused_before_it_sends(daemon: Daemon) -> None:
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 999999999\r\nExpect: 100-continue\r\n\r\n"
    )
    assert daemon.raw(head).startswith(b"HTTP/1.1 413 ")


@given(body=st.binary(max_size=60), path=st.sampled_from(["/jobs", "/jobs/batch"]))
@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_body_makes_the_daemon_stumble(daemon: Daemon, body: bytes, path: str) -> None:
    assert daemon.ask("POST", path, body).status == 400


@given(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40))
@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_path_makes_the_daemon_stumble(daemon: Daemon, path: str) -> None:
    assert daemon.ask("GET", f"/jobs/{path}", headers={}).status in (200, 400, 404, 405)
