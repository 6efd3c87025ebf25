from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from jobqueued.api import submissions
from jobqueued.api.errors import Problem
from jobqueued.api.fields import LONGEST_TIME_SECONDS, MAX_FAULTS
from jobqueued.api.payloads import MAX_DEPTH
from jobqueued.api.submissions import SUBMISSION, parse_batch, parse_submission
from jobqueued.config import Config
from jobqueued.model.submission import Submission

NOW = 1_800_000_000_000
Parser = Callable[[bytes, list[str], Config, int], object]
any_example = settings(
    max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def parse(config: Config, body: object, *header: str) -> Submission:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_submission(text, list(header), config, NOW)


def problem(config: Config, body: object, *header: str) -> Problem:
    with pytest.raises(Problem) as caught:
        parse(config, body, *header)
    return caught.value


def fields(found: Problem) -> list[str]:
    return [fault.field for fault in found.faults]


def test_the_least_a_job_needs_is_its_type(config: Config) -> None:
    assert parse(config, {"type": "echo"}) == Submission(type="echo")


def test_every_field_arrives_in_the_model(config: Config) -> None:
    sent = {
        "type": "echo",
        "payload": [1],
        "priority": 9,
        "max_retries": 0,
        "delay_seconds": 1.5,
        "expires_in_seconds": 60,
        "idempotency_key": "i",
        "correlation_id": "ü" * 256,
        "key": "k",
    }
    assert parse(config, sent) == Submission(
        type="echo",
        payload=b"[1]",
        priority=9,
        max_retries=0,
        delay=1500,
        expires_in=60_000,
        idempotency_key="i",
        correlation_id="ü" * 256,
        key="k",
    )


def test_moments_become_milliseconds(config: Config) -> None:
    sent = {
        "type": "echo",
        "run_at": "2030-01-01T02:00:00.250+02:00",
        "expires_at": "2030-01-02T00:00:00Z",
    }
    found = parse(config, sent)
    assert (found.run_at, found.expires_at) == (1_893_456_000_250, 1_893_542_400_000)


def test_a_run_at_that_has_passed_means_now(config: Config) -> None:
    assert parse(config, {"type": "echo", "run_at": "1999-01-01T00:00:00Z"}).run_at is None


def test_null_is_absent(config: Config) -> None:
    everything = dict.fromkeys(SUBMISSION) | {"type": "echo"}
    assert parse(config, everything) == Submission(type="echo")


def test_of_duplicate_fields_the_last_wins(config: Config) -> None:
    assert parse(config, b'{"type":"echo","priority":1,"priority":2}').priority == 2


def test_a_short_delay_is_never_rounded_away(config: Config) -> None:
    found = parse(config, {"type": "echo", "delay_seconds": 1e-9, "expires_in_seconds": 0.002})
    assert (found.delay, found.expires_in) == (1, 2)


@pytest.mark.parametrize(
    "payload",
    [
        b"123456789012345678901234567890",
        b'{"z":1, "a" : [1.0,1e2,-0] }',
        '"ünïcode 😀"'.encode(),
        b'"\\ud83d\\ude00\\u0000"',
        b'{"a":1,"a":2}',
        b"1e999",
        b"false",
        b'"null"',
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b'["' + b"[" * 200 + b'\\"' + b'"]',
    ],
)
def test_a_payload_is_kept_byte_for_byte(config: Config, payload: bytes) -> None:
    assert parse(config, b'{ "payload" : ' + payload + b' , "type": "echo" }').payload == payload


@given(payload=json_values.filter(lambda value: value is not None))
@any_example
def test_any_payload_is_kept_byte_for_byte(config: Config, payload: Any) -> None:
    text = json.dumps(payload, ensure_ascii=False).encode()
    assume(len(text) <= config.queue.max_payload)
    assert parse(config, b'{"type":"echo","payload":' + text + b"}").payload == text


@given(value=json_values)
@any_example
def test_any_json_is_a_job_or_a_problem_that_says_where(config: Config, value: Any) -> None:
    _job_or_problem(config, json.dumps(value).encode())


@given(value=st.dictionaries(st.sampled_from([*SUBMISSION, "other"]), json_values))
@any_example
def test_any_values_are_a_job_or_a_problem_that_says_where(config: Config, value: Any) -> None:
    _job_or_problem(config, json.dumps({"type": "echo"} | value).encode())


@given(body=st.binary(max_size=200))
@any_example
def test_any_bytes_are_a_job_or_a_problem(config: Config, body: bytes) -> None:
    _job_or_problem(config, body)


def _job_or_problem(config: Config, body: bytes) -> None:
    for parser in (parse_submission, parse_batch):
        found = _problem_or_none(parser, config, body)
        assert found is None or (found.status in (400, 413) and found.faults)


def _problem_or_none(parser: Parser, config: Config, body: bytes) -> Problem | None:
    try:
        found = parser(body, [], config, NOW)
        if isinstance(found, Coroutine):
            asyncio.run(found)
    except Problem as error:
        return error
    return None


INVALID: list[tuple[dict[str, object], str]] = [
    ({"type": 5}, "type"),
    ({"type": None}, "type"),
    ({"priority": 10}, "priority"),
    ({"priority": -1}, "priority"),
    ({"priority": 5.0}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": "5"}, "priority"),
    ({"priority": 10**30}, "priority"),
    ({"max_retries": 21}, "max_retries"),
    ({"delay_seconds": -0.1}, "delay_seconds"),
    ({"delay_seconds": LONGEST_TIME_SECONDS + 1}, "delay_seconds"),
    ({"delay_seconds": "5"}, "delay_seconds"),
    ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
    ({"run_at": "tomorrow"}, "run_at"),
    ({"run_at": 1893456000}, "run_at"),
    ({"run_at": "9999-12-31T23:59:59Z"}, "run_at"),
    ({"delay_seconds": 1, "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
    ({"expires_in_seconds": 0}, "expires_in_seconds"),
    ({"expires_in_seconds": 5, "delay_seconds": 5}, "expires_in_seconds"),
    ({"expires_at": "1999-01-01T00:00:00Z"}, "expires_at"),
    ({"expires_at": "2030-01-01T00:00:00Z", "expires_in_seconds": 1}, "expires_at"),
    ({"run_at": "2030-01-02T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"}, "expires_at"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": "x" * 257}, "idempotency_key"),
    ({"correlation_id": "a\nb"}, "correlation_id"),
    ({"correlation_id": "ends\n"}, "correlation_id"),
    ({"key": "a\x00"}, "key"),
    ({"key": 7}, "key"),
    ({"status": "pending"}, "status"),
    ({"payload": json.loads("[" * 200 + "]" * 200)}, "payload"),
]


@pytest.mark.parametrize(("more", "field"), INVALID)
def test_an_invalid_field_is_named(config: Config, more: dict[str, object], field: str) -> None:
    found = problem(config, {"type": "echo"} | more)
    assert (found.status, found.code, fields(found)) == (400, "invalid_request", [field])


def test_all_faults_are_listed_at_once(config: Config) -> None:
    found = problem(config, {"typ": "echo", "priority": 10, "max_retries": -1, "key": ""})
    assert fields(found) == ["typ", "priority", "max_retries", "key", "type"]


def test_an_unknown_field_gets_a_suggestion(config: Config) -> None:
    found = problem(config, {"type": "echo", "priorty": 1})
    assert 'did you mean "priority"' in found.faults[0].message


def test_an_unknown_type_gets_a_suggestion(config: Config) -> None:
    found = problem(config, {"type": "resize-image"})
    assert (found.status, found.code, fields(found)) == (400, "unknown_type", ["type"])
    assert 'did you mean "resize_image"' in found.detail


def test_an_unknown_type_among_other_faults_is_one_of_them(config: Config) -> None:
    found = problem(config, {"type": "x", "priority": -1})
    assert (found.code, fields(found)) == ("invalid_request", ["priority", "type"])


def test_a_payload_may_be_as_large_as_configured_and_no_larger(config: Config) -> None:
    most = config.queue.max_payload
    assert len(parse(config, {"type": "echo", "payload": "x" * (most - 2)}).payload) == most
    found = problem(config, {"type": "echo", "payload": "x" * (most - 1)})
    assert (found.status, found.code, fields(found)) == (413, "payload_too_large", ["payload"])


MALFORMED = [
    b"",
    b"  ",
    b"{",
    b'{"type":"echo"} x',
    b'{"type":"echo","payload":NaN}',
    b'{"type":"echo","payload":Infinity}',
    b'{"type":"echo","payload":"\\ud800"}',
    b'{"type":"echo","payload":"\\ud800 and some more text"}',
    b'{"type":"echo","key":"\\udc00"}',
    b'{"type":"echo","payload":01}',
    b'{"type":"echo","payload":' + b"[" * 100_000,
    b'{"type":"echo","payload":' + b'{"a":' * 100_000,
    b"\xef\xbb\xbf{}",
    b"[]",
    b"null",
    b'"echo"',
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:40]))
def test_a_malformed_body_is_refused(config: Config, body: bytes) -> None:
    found = problem(config, body)
    assert found.status == 400
    assert found.code in ("malformed_json", "invalid_request")
    assert fields(found) == ["body"]


def test_a_body_of_a_million_faults_is_answered_with_a_bounded_list(config: Config) -> None:
    body = b"{" + b",".join(b'"%d":1' % number for number in range(20_000)) + b"}"
    assert len(problem(config, body).faults) == MAX_FAULTS


def test_a_huge_field_name_is_cut(config: Config) -> None:
    assert len(fields(problem(config, {"x" * 100_000: 1, "type": "echo"}))[0]) < 300


def test_the_header_is_an_idempotency_key(config: Config) -> None:
    assert parse(config, {"type": "echo"}, "abc").idempotency_key == "abc"


def test_header_and_field_may_agree(config: Config) -> None:
    assert parse(config, {"type": "echo", "idempotency_key": "a"}, "a").idempotency_key == "a"


@pytest.mark.parametrize(
    ("header", "field"),
    [(["b"], "idempotency_key"), (["a", "b"], "idempotency_key")],
)
def test_header_and_field_that_differ_are_refused(
    config: Config, header: list[str], field: str
) -> None:
    found = problem(config, {"type": "echo", "idempotency_key": "a"}, *header)
    assert fields(found) == [field]


@pytest.mark.parametrize("header", ["", "x" * 257, "a\x7f", "\udcff"])
def test_a_bad_header_key_is_refused(config: Config, header: str) -> None:
    assert fields(problem(config, {"type": "echo"}, header)) == ["Idempotency-Key"]


def batch_problem(config: Config, body: object, *header: str) -> Problem:
    with pytest.raises(Problem) as caught:
        asyncio.run(parse_batch(msgspec.json.encode(body), list(header), config, NOW))
    return caught.value


def test_a_batch_keeps_its_order_and_pace(config: Config) -> None:
    body = {"jobs": [{"type": "echo", "payload": n} for n in range(5)], "pace_per_second": 0.5}
    jobs, pace = asyncio.run(parse_batch(msgspec.json.encode(body), [], config, NOW))
    assert ([job.payload for job in jobs], pace) == ([b"0", b"1", b"2", b"3", b"4"], 0.5)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "jobs"),
        ({"jobs": None}, "jobs"),
        ({"jobs": []}, "jobs"),
        ({"jobs": {}}, "jobs"),
        ({"jobs": [{"type": "echo"}] * 6}, "jobs"),
        ({"jobs": [{"type": "echo"}, 5]}, "jobs[1]"),
        ({"jobs": [{"type": "echo"}], "pace_per_second": 0}, "pace_per_second"),
        ({"jobs": [{"type": "echo"}], "pace_per_second": 1e-300}, "pace_per_second"),
        ({"jobs": [{"type": "echo"}], "pace": 1}, "pace"),
        ({"jobs": [{"type": "echo"}, {"type": "echo", "priority": 11}]}, "jobs[1].priority"),
    ],
)
def test_an_invalid_batch_is_refused(config: Config, body: object, field: str) -> None:
    found = batch_problem(config, body)
    assert (found.status, found.code, fields(found)) == (400, "invalid_request", [field])


def test_all_faults_of_all_jobs_are_listed(config: Config) -> None:
    jobs = [{"type": "echo", "key": ""}, {"type": "echo"}, {"type": "ecko", "priority": "high"}]
    found = batch_problem(config, {"jobs": jobs})
    assert fields(found) == ["jobs[0].key", "jobs[2].priority", "jobs[2].type"]


def test_a_large_payload_in_a_batch_is_too_large(config: Config) -> None:
    jobs = [{"type": "echo"}, {"type": "echo", "payload": "x" * 2000}]
    found = batch_problem(config, {"jobs": jobs})
    assert (found.status, fields(found)) == (413, ["jobs[1].payload"])


def test_the_header_means_nothing_for_a_batch(config: Config) -> None:
    found = batch_problem(config, {"jobs": [{"type": "echo"}]}, "abc")
    assert fields(found) == ["Idempotency-Key"]


@pytest.mark.parametrize("depth", range(880, 1010, 3))
def test_no_depth_of_nesting_is_more_than_a_refusal(config: Config, depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    _job_or_problem(config, b'{"jobs":[{"type":"echo","payload":' + nested + b"}]}")
    _job_or_problem(config, b'{"jobs":' + nested + b"}")
    _job_or_problem(config, b'{"type":"echo","priority":' + nested + b"}")


async def test_a_batch_that_takes_long_to_read_leaves_room_for_others(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "_LONGEST_SECONDS", -1.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    body = {"jobs": [{"type": "echo"}] * 5}
    jobs, _ = await parse_batch(msgspec.json.encode(body), [], config, NOW)
    waiting.cancel()
    assert len(jobs) == 5
    assert turns >= 4
