"""Every kind of bad input, sent to a real daemon: refused in words, and nothing is stored."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator

import pytest

from tests.api.support import JSON, PATIENCE, Daemon, Reply
from tests.api.test_refusals import assert_problem

ID = "01a1edeb-c0e8-7000-ae67-cc325cd735cb"
INVALID = "invalid_request"
GOOD = b'{"type":"echo"}'
HEAD = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
LAST = b"Connection: close\r\n"


@pytest.fixture
def nothing_stored(daemon: Daemon) -> Iterator[None]:
    """The test leaves as many jobs as there were, and a daemon that takes more."""
    before = daemon.stored()
    yield
    assert daemon.stored() == before
    assert daemon.ask("GET", "/readyz").status == 200


stores_nothing = pytest.mark.usefixtures("nothing_stored")


def send(daemon: Daemon, path: str, document: object, **headers: str) -> Reply:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return daemon.ask("POST", path, body, JSON | sent)


def assert_refused(reply: Reply, status: int, code: str, *fields: str) -> None:
    assert_problem(reply, status, code)
    assert reply.fields == list(fields), reply.document
    assert all(fault["message"] for fault in reply.document.get("errors", []))


NO_LABEL: tuple[object, ...] = ("", "x" * 257, "a\x00", "a\nb", "ends\n", "\x7f", 5, True, [], {})
NO_MOMENT: tuple[object, ...] = (
    *("", "tomorrow", "2030-01-01", "2030-01-01T00:00:00", "2030-13-01T00:00:00Z"),
    *("2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00+99:00"),
    *("9999-12-31T23:59:59Z", "2030-01-01T00:00:00Z\n", "٢٠٣٠-01-01T00:00:00Z"),
    *(1893456000, True, [], {}),
)
NO_DURATION: tuple[object, ...] = (-1, -0.001, 1e308, 10**30, 316_224_001, "5", "1s", True, [], {})
NO_COUNT: tuple[object, ...] = (-1, 21, 5.5, 5.0, 1e308, 10**30, -(10**30), "5", True, [], {})
NO_PACE: tuple[object, ...] = (0, -1, 1e-300, 1e308, 10**30, "5", True, [])

BAD_VALUES: dict[str, tuple[object, ...]] = {
    "type": (5, 1.5, True, [], {}, ["echo"]),
    "priority": (10, *NO_COUNT),
    "max_retries": NO_COUNT,
    "delay_seconds": NO_DURATION,
    "run_at": NO_MOMENT,
    "expires_in_seconds": (0, *NO_DURATION),
    "expires_at": ("1999-01-01T00:00:00Z", *NO_MOMENT),
    "idempotency_key": NO_LABEL,
    "correlation_id": NO_LABEL,
    "key": NO_LABEL,
}
EVERY_BAD_VALUE = [(name, value) for name, values in BAD_VALUES.items() for value in values]


@stores_nothing
@pytest.mark.parametrize(("name", "value"), EVERY_BAD_VALUE)
def test_a_bad_value_names_its_field(daemon: Daemon, name: str, value: object) -> None:
    assert_refused(send(daemon, "/jobs", {"type": "echo"} | {name: value}), 400, INVALID, name)


@stores_nothing
@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_bad_value_in_a_batch_names_its_job(daemon: Daemon, name: str) -> None:
    jobs: list[dict[str, object]] = [{"type": "echo", "payload": n} for n in range(5)]
    jobs[3][name] = BAD_VALUES[name][0]
    assert_refused(send(daemon, "/jobs/batch", {"jobs": jobs}), 400, INVALID, f"jobs[3].{name}")


NOT_JSON = [
    *(b"{", b"}", b'{"type":"echo"', b'{"type":"echo",}', b"{'type':'echo'}", b'{"type":"echo"}}'),
    *(b'{"type":"echo"}{"type":"echo"}', b"\xef\xbb\xbf" + GOOD, b"\x00", b"type=echo"),
    *(b'{"type":"echo","payload":%s}' % value for value in (b"NaN", b"Infinity", b"-Infinity")),
    *(b'{"type":"echo","delay_seconds":%s}' % value for value in (b"NaN", b"Infinity")),
    *(b'{"type":"echo","payload":%s}' % value for value in (b"01", b"1.", b".5", b"+1", b"0x1")),
    *(b'{"type":"echo","payload":"\\%s"}' % value for value in (b"ud800", b"udc00", b"x", b"u12")),
    *(b'{"type":"echo","payload":"%s"}' % value for value in (b"\x00", b"\n", b"\x1f")),
    *(b'{"type":"echo","key":"\\udfff"}', b'{"\\ud800":1,"type":"echo"}'),
    b'{"type":"echo","payload":/* none */1}',
    b'{"type":"echo","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"type":"echo","payload":' + b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b"}",
]


@stores_nothing
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/leases/heartbeat"])
@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:40]))
def test_what_is_not_json_is_malformed(daemon: Daemon, path: str, body: bytes) -> None:
    assert_refused(send(daemon, path, body), 400, "malformed_json", "body")


@stores_nothing
@pytest.mark.parametrize(
    "body",
    [b"\xff", b'{"type":"echo","payload":"\xc3"}', b'{"type":"echo","payload":"\xed\xa0\x80"}']
    + [GOOD.decode().encode(name) for name in ("utf-16", "utf-32")],
)
def test_what_is_not_utf_8_is_malformed(daemon: Daemon, body: bytes) -> None:
    assert_refused(send(daemon, "/jobs", body), 400, "malformed_json")


@stores_nothing
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/leases/heartbeat"])
@pytest.mark.parametrize("body", [b"", b" \n", b"null", b"[]", b"5", b'"echo"', b"true"])
def test_a_body_that_is_no_object_is_refused(daemon: Daemon, path: str, body: bytes) -> None:
    assert_refused(send(daemon, path, body), 400, INVALID, "body")


@stores_nothing
def test_a_body_must_be_there(daemon: Daemon) -> None:
    assert_refused(daemon.ask("POST", "/jobs", headers={}), 400, INVALID, "body")


@stores_nothing
def test_a_payload_can_be_too_deep(daemon: Daemon) -> None:
    nested = b"[" * 129 + b"]" * 129
    body = b'{"type":"echo","payload":' + nested + b"}"
    assert_refused(send(daemon, "/jobs", body), 400, INVALID, "payload")
    in_batch = b'{"jobs":[' + GOOD + b"," + body + b"]}"
    assert_refused(send(daemon, "/jobs/batch", in_batch), 400, INVALID, "jobs[1].payload")


@stores_nothing
@pytest.mark.parametrize(
    ("name", "meant"), [("ecko", "echo"), ("Echo", "echo"), ("fial", "fail"), ("agian", "again")]
)
def test_an_unknown_type_gets_a_suggestion(daemon: Daemon, name: str, meant: str) -> None:
    reply = send(daemon, "/jobs", {"type": name})
    assert_refused(reply, 400, "unknown_type", "type")
    assert f'did you mean "{meant}"' in reply.document["detail"]


@stores_nothing
@pytest.mark.parametrize("name", ["", " ", "x" * 100_000, "echo\x00", "../echo", "ünknown", "\t"])
def test_an_unknown_type_of_any_shape_is_refused(daemon: Daemon, name: str) -> None:
    reply = send(daemon, "/jobs", {"type": name})
    assert_refused(reply, 400, "unknown_type", "type")
    assert len(reply.body) < 2000


@stores_nothing
@pytest.mark.parametrize("name", ["id", "status", "attempt", "batch_id", "tenant", "", "ü" * 300])
def test_an_unknown_field_is_refused(daemon: Daemon, name: str) -> None:
    reply = send(daemon, "/jobs", {"type": "echo", name: 1})
    assert_problem(reply, 400, INVALID)
    (field,) = reply.fields
    assert field[:256] == name[:256]


@stores_nothing
@pytest.mark.parametrize(
    ("times", "field"),
    [
        ({"delay_seconds": 1, "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
        ({"expires_in_seconds": 1, "expires_at": "2030-01-01T00:00:00Z"}, "expires_at"),
        ({"delay_seconds": 5, "expires_in_seconds": 5}, "expires_in_seconds"),
        ({"delay_seconds": 3600, "expires_in_seconds": 0.001}, "expires_in_seconds"),
        (
            {"run_at": "2030-01-02T00:00:00Z", "expires_at": "2030-01-02T01:00:00+01:00"},
            "expires_at",
        ),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    daemon: Daemon, times: dict[str, object], field: str
) -> None:
    assert_refused(send(daemon, "/jobs", {"type": "echo"} | times), 400, INVALID, field)


@stores_nothing
def test_every_fault_of_a_job_is_in_one_answer(daemon: Daemon) -> None:
    bad: dict[str, object] = {name: [] for name in BAD_VALUES}
    reply = send(daemon, "/jobs", bad | {"colour": 1})
    assert_refused(reply, 400, INVALID, *bad, "colour")
    assert f"and {len(bad)} more" in reply.document["detail"]


@stores_nothing
def test_every_fault_of_a_batch_is_in_one_answer(daemon: Daemon) -> None:
    jobs = [
        {"type": "echo", "priority": 10},
        {"type": "ecko", "payload": "x" * 2000},
        {"tpye": "echo", "key": ""},
        7,
    ]
    reply = send(daemon, "/jobs/batch", {"jobs": jobs, "pace_per_second": 0, "colour": 1})
    found = ["jobs[0].priority", "jobs[1].type", "jobs[1].payload", "jobs[2].tpye", "jobs[2].key"]
    assert_problem(reply, 400, INVALID)
    assert sorted(reply.fields) == sorted(
        [*found, "jobs[2].type", "jobs[3]", "pace_per_second", "colour"]
    )


BATCHES: list[tuple[object, str]] = [
    ({}, "jobs"),
    ({"jobs": None}, "jobs"),
    ({"jobs": []}, "jobs"),
    ({"jobs": {"type": "echo"}}, "jobs"),
    ({"jobs": "echo"}, "jobs"),
    ({"jobs": [{"type": "echo"}] * 6}, "jobs"),
    ({"jobs": [[]]}, "jobs[0]"),
    ({"jobs": [{"type": "echo"}, None]}, "jobs[1]"),
    ({"jobs": [{"type": "echo"}, {}]}, "jobs[1].type"),
    *(
        ({"jobs": [{"type": "echo"}], "pace_per_second": pace}, "pace_per_second")
        for pace in NO_PACE
    ),
    ({"jobs": [{"type": "echo"}], "priority": 5}, "priority"),
]


@stores_nothing
@pytest.mark.parametrize(("batch", "field"), BATCHES)
def test_a_bad_batch_is_refused(daemon: Daemon, batch: object, field: str) -> None:
    assert_refused(send(daemon, "/jobs/batch", batch), 400, INVALID, field)


@stores_nothing
def test_a_payload_that_is_too_large_is_refused_alone_and_in_a_batch(daemon: Daemon) -> None:
    large = {"type": "echo", "payload": "x" * 1023}
    code = "payload_too_large"
    assert_refused(send(daemon, "/jobs", large), 413, code, "payload")
    batch = {"jobs": [*[{"type": "echo"}] * 3, large]}
    assert_refused(send(daemon, "/jobs/batch", batch), 413, code, "jobs[3].payload")


@stores_nothing
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/leases/heartbeat", f"/jobs/{ID}/run"])
def test_a_body_that_is_too_large_is_refused(daemon: Daemon, path: str) -> None:
    assert_refused(send(daemon, path, b" " * (256 * 1024 + 1)), 413, "body_too_large")


@stores_nothing
@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
        *("application/json; charset=latin-1", "application/jsonp", "application/xml", "ü", ""),
    ],
)
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/leases/heartbeat"])
def test_another_content_type_says_how_to_fix_it(daemon: Daemon, path: str, kind: str) -> None:
    reply = daemon.ask("POST", path, GOOD, {"Content-Type": kind})
    assert_refused(reply, 415, "unsupported_media_type")
    assert "curl" in reply.document["detail"]


@stores_nothing
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x"])
def test_a_compressed_body_is_refused(daemon: Daemon, encoding: str) -> None:
    reply = send(daemon, "/jobs", gzip.compress(GOOD), Content_Encoding=encoding)
    assert_problem(reply, 415, "unsupported_media_type")


@stores_nothing
def test_every_wrong_method_is_told_the_right_ones(daemon: Daemon) -> None:
    for path, routes in daemon.get("/openapi.json")["paths"].items():
        allowed = {method.upper() for method in routes} | ({"HEAD"} if "get" in routes else set())
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - allowed:
            reply = daemon.ask(method, path.replace("{id}", ID), headers={})
            assert_refused(reply, 405, "method_not_allowed")
            assert set(reply.headers["Allow"].split(", ")) == allowed


@stores_nothing
@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/job", "/jobs/", "//jobs", "/Jobs", "/jobs/x/y/z", "/batches", "/dead"),
        *(f"/jobs/{ID}/", f"/jobs/{ID}/nothing", "/jobs/../stats", "/%6aobs", "/jobs/batch/x"),
        "/x" * 4000,
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found(daemon: Daemon, method: str, path: str) -> None:
    assert_refused(daemon.ask(method, path, headers={}), 404, "not_found")


BAD_IDS = [
    *(ID, "x", "0", "-1", "null", "%20", "%00", "%ff", "%2e%2e", "%zz", ID.upper(), ID + "0"),
    *(ID[:-1], "01a1edeb-c0e8-4000-ae67-cc325cd735cb", "-1a1edeb-c0e8-7000-ae67-cc325cd735cb"),
    *("0" * 36, "zzzzzzzz-zzzz-7zzz-zzzz-zzzzzzzzzzzz", "%27%20OR%201=1--", "x" * 8000),
]
WITH_ID = [
    *(("GET", "/jobs/{}"), ("GET", "/jobs/{}?wait=1"), ("GET", "/jobs/{}/attempts")),
    *(("GET", "/jobs/{}/logs"), ("GET", "/jobs/{}/logs?follow=1"), ("GET", "/batches/{}")),
    *(("POST", "/jobs/{}/cancel"), ("POST", "/jobs/{}/run")),
]


@stores_nothing
@pytest.mark.parametrize(("method", "path"), WITH_ID)
def test_a_bad_id_is_not_found(daemon: Daemon, method: str, path: str) -> None:
    for bad in BAD_IDS:
        assert_refused(daemon.ask(method, path.format(bad), headers={}), 404, "not_found")


BAD_QUERIES: dict[str, list[str]] = {
    "/jobs?limit": ["0", "-1", "501", "abc", "", "5.0", "1e2", "0x5", "\uff19", "9" * 400],
    "/jobs?cursor": ["abc", "", "0", ID[:-1], "%00", "é", "z" * 36],
    "/jobs?status": ["nope", "", "PENDING", "pending,dead", "%00"],
    "/jobs?created_after": ["", "yesterday", "2026-01-01", "1700000000", "2026-01-01T00:00:00"],
    "/jobs?created_before": ["", "2026-99-01T00:00:00Z", "null"],
    "/jobs?type": ["", "%00", "x" * 257],
    "/jobs?key": ["", "%0a", "x" * 257],
    "/jobs?colour": ["red", ""],
    f"/jobs/{ID}?wait": ["-1", "abc", "", "nan", "inf", "1s", "true", "-0.001", "%31%00"],
    f"/jobs/{ID}?limit": ["5"],
    f"/jobs/{ID}/logs?attempt": ["0", "-1", "abc", "1.5", "", "9" * 400],
    f"/jobs/{ID}/logs?follow": ["yes", "", "2"],
    "/stats?x": ["1"],
    "/readyz?verbose": ["1"],
}


@stores_nothing
@pytest.mark.parametrize("parameter", BAD_QUERIES)
def test_a_bad_query_names_its_parameter(daemon: Daemon, parameter: str) -> None:
    name = parameter.partition("?")[2]
    for value in BAD_QUERIES[parameter]:
        path = f"{parameter}={value}".encode().decode("latin-1")
        escaped = "".join(f"%{ord(c):02x}" if ord(c) > 126 else c for c in path)
        assert_refused(daemon.ask("GET", escaped, headers={}), 400, INVALID, name)


@stores_nothing
def test_a_bad_wait_stores_no_job(daemon: Daemon) -> None:
    assert_refused(send(daemon, "/jobs?wait=-1", GOOD), 400, INVALID, "wait")
    assert_refused(send(daemon, "/jobs?wait=1&wait=2", GOOD), 400, INVALID, "wait")
    assert_refused(send(daemon, "/jobs/batch?wait=1", GOOD), 400, INVALID, "wait")


@stores_nothing
def test_every_fault_of_a_query_is_in_one_answer(daemon: Daemon) -> None:
    reply = daemon.ask("GET", "/jobs?limit=0&colour=red&status=nope&cursor=x&limit=1&limit=2")
    assert_refused(reply, 400, INVALID, "limit", "colour", "status", "cursor", "limit")


@stores_nothing
@pytest.mark.parametrize("query", ["key=%FF", "key=%C3", "&".join(["status=dead"] * 201)])
def test_a_query_that_cannot_be_read_is_refused(daemon: Daemon, query: str) -> None:
    assert_refused(daemon.ask("GET", f"/jobs?{query}"), 400, "bad_request")


@stores_nothing
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        *(
            ({"Host": host}, "foreign_host")
            for host in ("example.com", "localhost.example.com", "10.0.0.1", "[::2]", "", "127.1")
        ),
        *(
            ({"Origin": origin}, "cross_site")
            for origin in ("http://example.com", "null", "", "https://localhost", "file://")
        ),
        *(({"Sec-Fetch-Site": site}, "cross_site") for site in ("cross-site", "same-site")),
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/jobs", GOOD), ("GET", "/stats", None)]
)
def test_strangers_are_kept_out(
    daemon: Daemon, method: str, path: str, body: bytes | None, headers: dict[str, str], code: str
) -> None:
    assert_refused(daemon.ask(method, path, body, JSON | headers), 403, code)


@stores_nothing
@pytest.mark.parametrize("key", ["", "x" * 257, "ÿ", "tab\there"])
def test_a_bad_idempotency_header_is_refused(daemon: Daemon, key: str) -> None:
    reply = send(daemon, "/jobs", GOOD, Idempotency_Key=key)
    assert_refused(reply, 400, INVALID, "Idempotency-Key")


@stores_nothing
def test_header_and_field_that_differ_are_refused(daemon: Daemon) -> None:
    document = {"type": "echo", "idempotency_key": "one"}
    reply = send(daemon, "/jobs", document, Idempotency_Key="another")
    assert_refused(reply, 400, INVALID, "idempotency_key")
    batch = send(daemon, "/jobs/batch", {"jobs": [{"type": "echo"}]}, Idempotency_Key="one")
    assert_refused(batch, 400, INVALID, "Idempotency-Key")


def test_a_key_reused_for_other_work_stores_nothing(daemon: Daemon) -> None:
    daemon.submit("echo", payload={"a": [1, True]}, idempotency_key="bad-input")
    before = daemon.stored()
    others: list[dict[str, object]] = [
        {"type": "fail"},
        {"payload": {"a": [1, 1]}},
        {"payload": {}},
    ]
    for other in others:
        job = {"type": "echo", "payload": {"a": [1, True]}, "idempotency_key": "bad-input"} | other
        reply = send(daemon, "/jobs", job)
        assert_refused(reply, 422, "idempotency_key_reused", "idempotency_key")
        in_batch = send(daemon, "/jobs/batch", {"jobs": [job, {"type": "echo"}, job]})
        every = [f"jobs[{number}].idempotency_key" for number in (0, 2)]
        assert_refused(in_batch, 422, "idempotency_key_reused", *every)
    assert daemon.stored() == before


@stores_nothing
def test_a_key_twice_in_a_batch_for_other_work_is_refused(daemon: Daemon) -> None:
    job = {"type": "echo", "idempotency_key": "twice"}
    reply = send(daemon, "/jobs/batch", {"jobs": [job, job | {"payload": 1}]})
    assert_refused(reply, 422, "idempotency_key_reused", "jobs[1].idempotency_key")


BEATS: list[tuple[object, str]] = [
    (None, "leases"),
    ([], "leases"),
    ([{}], "leases[0].token"),
    ([{"token": 5}], "leases[0].token"),
    ([{"token": "t", "extend_seconds": -1}], "leases[0].extend_seconds"),
    ([{"token": "t", "extend_seconds": 1e308}], "leases[0].extend_seconds"),
    ([{"token": "t"}, {"token": "t", "progress": 5}], "leases[1].progress"),
    ([{"token": "t", "progress": {"percent": 100.5}}], "leases[0].progress.percent"),
    ([{"token": "t", "progress": {"percent": "40"}}], "leases[0].progress.percent"),
    ([{"token": "t", "outcome": "completed"}], "leases[0].outcome"),
]


@stores_nothing
@pytest.mark.parametrize(("leases", "field"), BEATS)
def test_a_bad_heartbeat_is_refused(daemon: Daemon, leases: object, field: str) -> None:
    reply = send(daemon, "/leases/heartbeat", {"leases": leases})
    assert_refused(reply, 400, INVALID, field)


@pytest.mark.parametrize("act", ["cancel", "run"])
def test_an_action_with_a_bad_body_does_nothing(daemon: Daemon, act: str) -> None:
    path = f"/jobs/{daemon.submit('echo', delay_seconds=3600)['id']}"
    assert_refused(send(daemon, f"{path}/{act}", b"[]"), 400, INVALID, "body")
    assert_refused(send(daemon, f"{path}/{act}", b"{"), 400, "malformed_json", "body")
    assert_refused(send(daemon, f"{path}/{act}", {"a": 1, "b": 2}), 400, INVALID, "a", "b")
    plain = daemon.ask("POST", f"{path}/{act}", b"now", {"Content-Type": "text/plain"})
    assert_refused(plain, 415, "unsupported_media_type")
    assert daemon.get(path)["status"] == "scheduled"
    assert daemon.post(f"{path}/cancel").status == 200


@pytest.mark.parametrize("body", [None, b"", b" ", b"{}", b" {} "])
def test_an_action_needs_no_body(daemon: Daemon, body: bytes | None) -> None:
    path = f"/jobs/{daemon.submit('echo', delay_seconds=3600)['id']}/cancel"
    assert daemon.ask("POST", path, body, JSON if body else {}).status == 200
    assert_refused(daemon.ask("POST", path, body, JSON if body else {}), 409, "conflict")


UNFIT = {
    "chunk size is no number": CHUNKED + b"\r\nzz\r\n" + GOOD + b"\r\n0\r\n\r\n",
    "chunk size is negative": CHUNKED + b"\r\n-f\r\n" + GOOD + b"\r\n0\r\n\r\n",
    "chunk size is immense": CHUNKED + b"\r\nfffffffffffffffff\r\n" + GOOD + b"\r\n0\r\n\r\n",
    "chunk is longer than said": CHUNKED + b"\r\n5\r\n" + GOOD + b"\r\n0\r\n\r\n",
    "chunk without its end": CHUNKED + b"\r\nf\r\n" + GOOD + b"XX0\r\n\r\n",
    "length and chunks": CHUNKED + b"Content-Length: 15\r\n\r\n" + GOOD,
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "unknown transfer coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + GOOD,
    "negative length": HEAD + b"Content-Length: -15\r\n\r\n" + GOOD,
    "signed length": HEAD + b"Content-Length: +15\r\n\r\n" + GOOD,
    "hexadecimal length": HEAD + b"Content-Length: 0xf\r\n\r\n" + GOOD,
    "immense length": HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n" + GOOD,
    "two lengths": HEAD + b"Content-Length: 15\r\nContent-Length: 16\r\n\r\n" + GOOD,
    "two hosts": HEAD + b"Host: localhost\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "no host": b"POST /jobs HTTP/1.1\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "header without colon": HEAD + b"Nonsense\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "space before the colon": HEAD + b"Content-Length : 15\r\n\r\n" + GOOD,
    "folded header": HEAD + b"X: a\r\n b\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "null byte in a header": HEAD + b"X: a\x00b\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "control character in a header": HEAD + b"Idempotency-Key: a\x7f\r\n\r\n" + GOOD,
    "bare line feeds": HEAD.replace(b"\r", b"") + b"Content-Length: 15\n\n" + GOOD,
    "large header": HEAD + b"X: " + b"a" * 9000 + b"\r\nContent-Length: 15\r\n\r\n" + GOOD,
    "many headers": HEAD + b"X: 1\r\n" * 5000 + b"Content-Length: 15\r\n\r\n" + GOOD,
    "long path": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "path with a space": b"GET /jobs/a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "path in bytes": b"GET /jobs/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "broken address": b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown method": b"G@T /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + b"\r\n\r\n",
}


def as_reply(text: bytes) -> Reply:
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(first.split()[1]), headers, body)


@stores_nothing
@pytest.mark.parametrize("what", UNFIT)
def test_what_is_not_http_ends_the_connection(daemon: Daemon, what: str) -> None:
    """What follows on the connection is not a request any more: nobody knows where it begins."""
    smuggled = HEAD + b"Content-Length: 15\r\n\r\n" + GOOD
    reply = as_reply(daemon.raw(UNFIT[what], smuggled))
    assert_refused(reply, 400, "bad_request")
    assert reply.headers["Connection"] == "close"


@stores_nothing
def test_a_chunked_body_is_cut_off_where_it_is_too_large(daemon: Daemon) -> None:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    text = daemon.raw(CHUNKED + LAST + b"\r\n", *[chunk] * 9, b"0\r\n\r\n")
    assert_refused(as_reply(text), 413, "body_too_large")


@stores_nothing
@pytest.mark.parametrize("sent", [HEAD + b"Content-Length: 15\r\n\r\n", CHUNKED + b"\r\nf\r\n"])
def test_half_a_body_is_no_job(daemon: Daemon, sent: bytes) -> None:
    for half in (sent, sent + GOOD[:7]):
        with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as connection:
            connection.sendall(half)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        assert not answer or as_reply(answer).status == 400


@stores_nothing
def test_a_refused_request_leaves_the_connection_in_step(daemon: Daemon) -> None:
    def post(body: bytes, *more: bytes) -> bytes:
        return HEAD + b"".join(more) + b"Content-Length: %d\r\n\r\n" % len(body) + body

    sent = post(b"{") + post(b'{"type":"ecko"}') + post(b"[]") + post(b'{"x":1}', LAST)
    answers = daemon.raw(sent).split(b"HTTP/1.1 ")[1:]
    replies = [as_reply(b"HTTP/1.1 " + answer) for answer in answers]
    codes = [(reply.status, reply.document["code"]) for reply in replies]
    assert codes == [
        (400, "malformed_json"), (400, "unknown_type"), (400, INVALID), (400, INVALID)
    ]  # fmt: skip


@stores_nothing
def test_a_client_that_asks_first_is_told_what_is_wrong(daemon: Daemon) -> None:
    head = HEAD.replace(b"application/json", b"text/plain") + b"Expect: 100-continue\r\n" + LAST
    with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as connection:
        connection.sendall(head + b"Content-Length: 15\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(GOOD)
        assert_problem(as_reply(connection.recv(65536)), 415, "unsupported_media_type")


def test_what_is_merely_unusual_is_taken(daemon: Daemon) -> None:
    digits = b"123456789012345678901234567890"
    body = (
        b'{"payload":[%s],"type":"fail","type":"echo","key":null,"delay_seconds":0.5e-3}' % digits
    )
    reply = send(daemon, "/jobs?wait=100", body)
    assert (reply.status, reply.document["type"], reply.document["key"]) == (201, "echo", None)
    assert b'"payload":[%s]' % digits in reply.body
    assert b'"result":[%s]' % digits in reply.body


def test_of_duplicate_keys_in_a_payload_the_last_wins(daemon: Daemon) -> None:
    key = {"Idempotency-Key": "duplicates"}
    first = daemon.ask("POST", "/jobs", b'{"type":"echo","payload":{"a":1,"a":2}}', JSON | key)
    again = daemon.ask("POST", "/jobs", b'{"type":"echo","payload":{"a":2}}', JSON | key)
    assert (first.status, again.status) == (201, 200)
    assert first.document["payload"] == {"a": 2}
