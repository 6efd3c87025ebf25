"""`POST /jobs/cancel`: filters, steps, dry runs and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.support import Daemon


@pytest.fixture
def ids(daemon: Daemon) -> Iterator[list[str]]:
    """Three jobs that wait, of one correlation id; the last one's key is `k`."""
    own: dict[str, Any] = {"correlation_id": "bulk", "delay_seconds": 3600}
    made = [daemon.submit("echo", **own, **more)["id"] for more in ({}, {}, {"key": "k"})]
    yield made
    for job_id in made:
        daemon.post(f"/jobs/{job_id}/cancel")


def cancel(daemon: Daemon, **fields: object) -> Any:
    reply = daemon.post("/jobs/cancel", fields)
    assert reply.status == 200, reply
    return reply.document


def statuses(daemon: Daemon, ids: list[str]) -> list[str]:
    return [daemon.get(f"/jobs/{job_id}")["status"] for job_id in ids]


def test_what_fits_is_cancelled_and_the_log_says_who_did_it(daemon: Daemon, ids: list[str]) -> None:
    done = cancel(daemon, correlation_id="bulk")
    assert (done["count"], done["stopping"], done["more"]) == (3, 0, False)
    assert sorted(done["ids"]) == sorted(ids)
    assert statuses(daemon, ids) == ["cancelled"] * 3
    assert "127.0.0.1 cancelled 3 jobs: 'correlation_id=bulk'" in daemon.log()
    assert cancel(daemon, correlation_id="bulk")["count"] == 0


def test_a_dry_run_only_counts(daemon: Daemon, ids: list[str]) -> None:
    counted = cancel(daemon, correlation_id="bulk", dry_run=True, limit=1)
    assert (counted["count"], len(counted["ids"]), counted["more"]) == (3, 1, False)
    assert statuses(daemon, ids) == ["scheduled"] * 3


def test_filters_hold_together(daemon: Daemon, ids: list[str]) -> None:
    assert cancel(daemon, correlation_id="bulk", status=["pending"])["count"] == 0
    assert cancel(daemon, correlation_id="bulk", type="fail")["count"] == 0
    assert cancel(daemon, key="k", correlation_id="bulk", status=["scheduled"])["ids"] == ids[2:]
    early = "2020-01-01T00:00:00Z"
    assert cancel(daemon, correlation_id="bulk", created_before=early)["count"] == 0
    assert cancel(daemon, correlation_id="bulk", created_after=early)["count"] == 2


def test_a_cursor_goes_on_and_leaves_newer_jobs_alone(daemon: Daemon, ids: list[str]) -> None:
    first = cancel(daemon, correlation_id="bulk", limit=2)
    assert (first["ids"], first["more"]) == (ids[:0:-1], True)
    newer = daemon.submit("echo", correlation_id="bulk", delay_seconds=3600)["id"]
    rest = cancel(daemon, correlation_id="bulk", limit=2, cursor=first["cursor"])
    assert (rest["ids"], rest["more"]) == (ids[:1], False)
    assert statuses(daemon, [newer]) == ["scheduled"]
    assert cancel(daemon, correlation_id="bulk")["ids"] == [newer]


def test_running_jobs_are_stopped_when_asked_for(daemon: Daemon) -> None:
    job_id = daemon.at_the_gate()["id"]
    assert cancel(daemon, type="gate")["count"] == 0
    done = cancel(daemon, type="gate", status=["processing"])
    assert (done["ids"], done["stopping"]) == ([job_id], 1)
    assert daemon.get(f"/jobs/{job_id}?wait=20")["status"] == "cancelled"


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({}, ["body"]),
        ({"limit": 5, "dry_run": True}, ["body"]),
        ({"type": None}, ["body"]),
        ({"status": []}, ["status"]),
        ({"status": "pending"}, ["status"]),
        ({"status": ["completed"]}, ["status"]),
        ({"status": ["pending"] * 5}, ["status"]),
        ({"type": 5, "key": ""}, ["type", "key"]),
        ({"type": "echo", "limit": 501}, ["limit"]),
        ({"type": "echo", "limit": 0}, ["limit"]),
        ({"type": "echo", "cursor": "x"}, ["cursor"]),
        ({"type": "echo", "cursor": 5}, ["cursor"]),
        ({"type": "echo", "dry_run": 1}, ["dry_run"]),
        ({"type": "echo", "created_after": "today"}, ["created_after"]),
        ({"type": "echo", "tpye": "echo"}, ["tpye"]),
    ],
)
def test_bad_filters_are_named_and_nothing_is_cancelled(
    daemon: Daemon, ids: list[str], fields: dict[str, object], at_fault: list[str]
) -> None:
    reply = daemon.post("/jobs/cancel", fields)
    assert (reply.status, reply.fields) == (400, at_fault), reply
    assert statuses(daemon, ids) == ["scheduled"] * 3


def test_a_batch_can_be_checked_without_being_stored(daemon: Daemon) -> None:
    before = daemon.stored()
    jobs: list[dict[str, object]] = [{"type": "echo"}, {"type": "echo", "priority": 10}]
    reply = daemon.post("/jobs/batch?dry_run=1", {"jobs": jobs})
    assert (reply.status, reply.fields) == (400, ["jobs[1].priority"])
    reply = daemon.post("/jobs/batch?dry_run=1", {"jobs": jobs[:1]})
    assert (reply.status, reply.document) == (200, {"checked": 1})
    assert daemon.stored() == before
