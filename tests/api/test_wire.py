from __future__ import annotations

import json

import pytest

from jobqueued.api.wire import attempts_json, batch_json, job_json, new_batch_json
from jobqueued.api.wire_leases import beats_json
from jobqueued.model.change import Change
from jobqueued.model.job import Attempt, Batch, Job, Progress, Status
from jobqueued.model.submission import BeatAnswer, Submitted

FIELDS = [
    *("id", "type", "status", "payload", "priority", "max_retries", "attempt", "failures"),
    *("created_at", "run_at", "started_at", "finished_at", "expires_at"),
    *("idempotency_key", "correlation_id", "key", "batch_id", "schedule", "service", "tenant"),
    *("worker", "lease_expires_at", "progress", "result", "last_error"),
]


def make_job(**changes: object) -> Job:
    values: dict[str, object] = {
        **dict.fromkeys(FIELDS),
        "id": "019a0000-0000-7000-8000-000000000000",
        "type": "echo",
        "status": Status.PENDING,
        "payload": b'{"z":1, "a":123456789012345678901234567890}',
        "priority": 5,
        "max_retries": 3,
        "attempt": 1,
        "failures": 0,
        "created_at": 1_769_860_800_000,
        "run_at": 1_769_860_800_001,
    }
    return Job(**(values | changes))  # type: ignore[arg-type]


def test_a_job_has_every_field_of_the_contract_in_its_order() -> None:
    document = json.loads(job_json(make_job()))
    assert list(document) == FIELDS
    assert document["created_at"] == "2026-01-31T12:00:00.000Z"
    assert document["run_at"] == "2026-01-31T12:00:00.001Z"
    assert document["status"] == "pending"
    assert all(document[name] is None for name in FIELDS[10:])


def test_payload_and_result_are_sent_as_they_were_received() -> None:
    text = job_json(make_job(result=b'{"r": 1.50}'))
    assert b'"payload":{"z":1, "a":123456789012345678901234567890}' in text
    assert b'"result":{"r": 1.50}' in text


def test_progress_is_an_object() -> None:
    document = json.loads(job_json(make_job(progress=Progress(40.0, "resizing"))))
    assert document["progress"] == {"percent": 40, "message": "resizing"}


def test_times_that_are_set_are_text() -> None:
    names = ["started_at", "finished_at", "expires_at", "lease_expires_at"]
    document = json.loads(job_json(make_job(**dict.fromkeys(names, 0))))
    assert [document[name] for name in names] == ["1970-01-01T00:00:00.000Z"] * 4


def test_a_new_batch_says_which_jobs_existed() -> None:
    submitted = [Submitted(make_job(), True), Submitted(make_job(), False)]
    document = json.loads(new_batch_json("b", submitted))
    assert (document["batch_id"], len(document["jobs"]), document["replayed"]) == ("b", 2, [0])


def test_a_batch_is_done_when_it_has_finished() -> None:
    batch = Batch(batch_id="b", total=2, counts={"dead": 2}, created_at=0, finished_at=None)
    assert json.loads(batch_json(batch)) == {
        "batch_id": "b",
        "total": 2,
        "counts": {"dead": 2},
        "done": False,
        "created_at": "1970-01-01T00:00:00.000Z",
        "finished_at": None,
    }


def test_an_attempt_has_its_duration() -> None:
    attempt = Attempt(
        number=1,
        worker="default-1",
        started_at=1000,
        finished_at=1250,
        outcome="failed",
        error="exit code 1",
        exit_code=1,
        http_status=None,
        max_rss_bytes=4096,
        cpu_ms=3,
    )
    (document,) = json.loads(attempts_json([attempt], []))["attempts"]
    assert (document["number"], document["duration_ms"], document["exit_code"]) == (1, 250, 1)
    assert document["finished_at"] == "1970-01-01T00:00:01.250Z"


@pytest.mark.parametrize(("before", "edited"), [(None, False), (b"null", True), (b"1.10", True)])
def test_a_change_says_whether_it_edited_the_payload(before: bytes | None, edited: bool) -> None:
    change = Change(
        number=2, at=1250, attempt=1, actor="user ann", action="replay", note=None,
        payload_before=before,
    )  # fmt: skip
    body = attempts_json([], [change])
    (document,) = json.loads(body)["changes"]
    assert (document["number"], document["at"]) == (2, "1970-01-01T00:00:01.250Z")
    assert (document["actor"], document["action"]) == ("user ann", "replay")
    assert document["edited"] == edited
    assert b'"payload_before":' + (before or b"null") in body


def test_beats_are_answered_in_order() -> None:
    answers = [BeatAnswer("a", "ok", 1000, 1500), BeatAnswer("b", "stale", None)]
    assert json.loads(beats_json(answers)) == {
        "leases": [
            {
                "token": "a",
                "status": "ok",
                "expires_at": "1970-01-01T00:00:01.000Z",
                "expires_in_seconds": 1.5,
            },
            {"token": "b", "status": "stale", "expires_at": None, "expires_in_seconds": None},
        ]
    }
