from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.api.errors import Problem
from jobqueued.api.queries import LIST, LOG, WAIT, Parameters, job_query, read_query
from jobqueued.model.ids import IdMaker
from jobqueued.model.job import Status
from jobqueued.model.submission import JobQuery

JOB_ID = IdMaker().make(1_800_000_000_000)


def problem(text: str, known: Parameters) -> Problem:
    with pytest.raises(Problem) as caught:
        read_query(text, known)
    return caught.value


@pytest.mark.parametrize(
    ("text", "seconds"), [("wait=0", 0.0), ("wait=2.5", 2.5), ("wait=61", 60.0), ("wait=1e9", 60.0)]
)
def test_wait_is_seconds_up_to_sixty(text: str, seconds: float) -> None:
    assert read_query(text, WAIT) == {"wait": seconds}


@pytest.mark.parametrize("value", ["", "-1", "nan", "inf", "abc", "1s", "true", "1_0", "%31%FF"])
def test_a_wait_that_is_no_number_is_refused(value: str) -> None:
    assert problem(f"wait={value}", WAIT).status == 400


def test_all_filters_arrive_in_the_model() -> None:
    text = (
        "status=dead&status=pending&type=a.b&batch_id=b&correlation_id=c%20d&idempotency_key=i"
        "&key=k&created_after=1970-01-01T00:00:01Z&created_before=1970-01-01T01:00:02%2B01:00"
        f"&limit=500&cursor={JOB_ID}"
    )
    assert job_query(read_query(text, LIST)) == JobQuery(
        statuses=(Status.DEAD, Status.PENDING),
        type="a.b",
        batch_id="b",
        correlation_id="c d",
        idempotency_key="i",
        key="k",
        created_after=1000,
        created_before=2000,
        before_id=JOB_ID,
        limit=500,
    )


def test_a_plus_in_a_time_need_not_be_escaped() -> None:
    assert read_query("created_after=1970-01-01T01:00:00+01:00", LIST) == {"created_after": 0}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("status=running", "status"),
        ("status=", "status"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=5.0", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=abc", "cursor"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2026-01-01", "created_after"),
        ("type=", "type"),
        ("key=a%00b", "key"),
        ("colour=red", "colour"),
    ],
)
def test_an_invalid_filter_is_named(text: str, field: str) -> None:
    found = problem(text, LIST)
    assert (found.status, [fault.field for fault in found.faults]) == (400, [field])


def test_all_faults_are_listed_at_once() -> None:
    found = problem("limit=0&statsu=dead&cursor=x", LIST)
    assert [fault.field for fault in found.faults] == ["limit", "statsu", "cursor"]
    assert 'did you mean "status"' in found.faults[1].message


@pytest.mark.parametrize("text", ["key=%FF", "key=\udcff", "&".join(["status=dead"] * 201)])
def test_an_unreadable_query_is_refused(text: str) -> None:
    assert problem(text, LIST).code == "bad_request"


def test_attempt_and_follow() -> None:
    assert read_query("attempt=3&follow=1", LOG) == {"attempt": 3, "follow": True}
    assert read_query("follow=false", LOG) == {"follow": False}


@pytest.mark.parametrize("text", ["attempt=0", "attempt=x", "follow=yes", "attempt=" + "9" * 400])
def test_an_invalid_attempt_or_follow_is_refused(text: str) -> None:
    assert problem(text, LOG).status == 400


@given(text=st.text(), name=st.sampled_from([*LIST, *LOG, *WAIT]))
def test_any_query_is_read_or_refused(text: str, name: str) -> None:
    for candidate in (text, f"{name}={text}"):
        for known in (LIST, LOG, WAIT):
            assert _status(candidate, known) in (200, 400)


def _status(text: str, known: Parameters) -> int:
    try:
        read_query(text, known)
    except Problem as error:
        return error.status
    return 200
