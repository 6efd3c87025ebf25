"""How an answer becomes an outcome, whatever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.executors.http_answer import (
    Answer,
    json_of,
    outcome_of_answer,
    record_of,
    wait_asked_for,
)
from jobqueued.model.job import MAX_ERROR
from jobqueued.model.outcome import OutcomeKind

NOW = 1_445_412_480_000
"""Wed, 21 Oct 2015 07:28:00 GMT."""

answers = st.builds(
    Answer,
    status=st.integers(100, 999),
    reason=st.text(max_size=200),
    retry_after=st.one_of(st.none(), st.text(max_size=40)),
    body=st.binary(max_size=6000),
    too_large=st.booleans(),
    broken=st.booleans(),
)


@given(answers)
def test_every_answer_has_one_outcome(answer: Answer) -> None:
    outcome = outcome_of_answer(answer, NOW)
    again = answer.status in (408, 425, 429) or 500 <= answer.status <= 599
    if 200 <= answer.status <= 299 and not answer.broken:
        assert outcome.kind is OutcomeKind.COMPLETED
        assert outcome.error is None
    elif again or 200 <= answer.status <= 299:
        assert outcome.kind is OutcomeKind.FAILED
    else:
        assert outcome.kind is OutcomeKind.FATAL
        assert outcome.retry_after_ms is None
    assert outcome.http_status == answer.status
    if outcome.error is not None:
        assert 0 < len(outcome.error) <= MAX_ERROR
        assert outcome.error.isprintable()
    assert len(record_of(answer, outcome)) < 5000


@given(answers)
def test_what_is_shown_cannot_play_with_a_terminal(answer: Answer) -> None:
    text = answer.line + record_of(answer, outcome_of_answer(answer, NOW))
    assert text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("120", 120_000),
        (" 7 ", 7_000),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30_000),
        ("Wednesday, 21-Oct-15 07:28:30 GMT", 30_000),
        ("Wed Oct 21 07:28:30 2015", 30_000),
        ("Wed, 21 Oct 2015 09:28:30 +0200", 30_000),
        ("0", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 2009 07:28:00 GMT", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("9" * 5000, None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        (None, None),
    ],
)
def test_retry_after(text: str | None, wait: int | None) -> None:
    assert wait_asked_for(Answer(503, retry_after=text), NOW) == wait


@given(st.text(max_size=60))
def test_any_retry_after_is_understood_or_ignored(text: str) -> None:
    wait = wait_asked_for(Answer(503, retry_after=text), NOW)
    assert wait is None or wait > 0


@given(st.binary(max_size=200))
def test_every_result_is_json(body: bytes) -> None:
    result = json_of(body)
    if result is not None:
        json.loads(result)


def test_the_words() -> None:
    refused = outcome_of_answer(Answer(404, "Not Found", body=b" no\n such\thook "), NOW)
    assert refused.error == "answered 404 Not Found: no such hook"
    assert outcome_of_answer(Answer(500), NOW).error == "answered 500"
    moved = outcome_of_answer(Answer(302, "Found", body=b"over there"), NOW)
    assert moved.error == "answered 302 Found: redirects are not followed"
    broken = outcome_of_answer(Answer(200, "OK", body=b"{}", broken=True), NOW)
    assert broken.error == "answered 200 OK, then broke off after 2 bytes of the body"
    assert broken.result is None
