"""Why a job is not running, over HTTP: each reason with its data."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobqueued import clock
from jobqueued.api.wire_why import why_type_json
from jobqueued.engine.gate import CODES, Gate
from jobqueued.engine.why import WhyType
from tests.api.support import Daemon, until

NOW = 1_800_000_000_000


def why(daemon: Daemon, job: Any) -> Any:
    return daemon.get(f"/jobs/{job['id']}/why")


def test_a_scheduled_job_says_when_it_runs(daemon: Daemon) -> None:
    run_at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    job = daemon.submit("echo", run_at=run_at)
    told = why(daemon, job)
    assert (told["id"], told["type"], told["status"]) == (job["id"], "echo", "scheduled")
    assert told["ahead"] is None
    (reason,) = told["reasons"]
    assert (reason["code"], reason["run_at"]) == ("scheduled", job["run_at"])
    assert job["run_at"] in reason["detail"]
    assert told["estimated_start"] >= job["run_at"]
    daemon.post(f"/jobs/{job['id']}/cancel")


def test_a_job_that_failed_says_what_with_and_when_it_is_tried_again(daemon: Daemon) -> None:
    job = daemon.submit("again")
    until(lambda: daemon.get(f"/jobs/{job['id']}")["status"] == "retrying")
    (reason,) = why(daemon, job)["reasons"]
    assert (reason["code"], reason["failures"]) == ("retry_backoff", 1)
    assert reason["last_error"] == daemon.get(f"/jobs/{job['id']}")["last_error"]
    assert "until" not in reason
    daemon.post(f"/jobs/{job['id']}/cancel")


def test_a_paused_type_says_who_paused_it_and_sums_up_its_backlog(daemon: Daemon) -> None:
    daemon.post("/types/picky/pause", {"note": "the printer burns"})
    first, second = daemon.submit("picky"), daemon.submit("picky")
    told = why(daemon, second)
    paused, ahead = told["reasons"]
    assert (paused["code"], paused["by"], paused["note"]) == (
        "type_paused", "127.0.0.1", "the printer burns",
    )  # fmt: skip
    assert paused["since"] <= second["created_at"]
    assert (ahead["code"], ahead["ahead"]) == ("jobs_ahead", 1)
    assert (told["ahead"], told["more_ahead"], told["estimated_start"]) == (1, False, None)
    whole = daemon.get("/types/picky/why")
    assert [gate["code"] for gate in whole["gates"]] == ["type_paused"]
    assert [(each["code"], each["jobs"]) for each in whole["backlog"]] == [("type_paused", 2)]
    for job in (first, second):
        daemon.post(f"/jobs/{job['id']}/cancel")
    daemon.post("/types/picky/resume")
    assert daemon.get("/types/picky/why") == {"type": "picky", "gates": [], "backlog": []}


def test_who_runs_says_where_and_who_is_over_says_so(daemon: Daemon) -> None:
    job = daemon.at_the_gate()
    told = why(daemon, job)
    assert (told["status"], told["reasons"], told["worker"]) == ("processing", [], job["worker"])
    assert told["since"] == job["started_at"]
    daemon.open_gate()
    done = daemon.get(f"/jobs/{job['id']}?wait=20")
    told = why(daemon, done)
    assert (told["reasons"], told["worker"], told["since"]) == ([], None, done["finished_at"])
    assert told["detail"].startswith("it is over: completed")


@pytest.mark.parametrize("path", ["/jobs/nothing/why", "/types/ehco/why"])
def test_what_there_is_not_is_not_found(daemon: Daemon, path: str) -> None:
    reply = daemon.ask("GET", path)
    assert (reply.status, reply.document["code"]) == (404, "not_found")


GATES = {
    "scheduled": Gate(code="scheduled", type="mail", until=NOW),
    "retry_backoff": Gate(
        code="retry_backoff", type="mail", until=NOW, failures=2, reason="no such host"
    ),
    "expired": Gate(code="expired", type="mail", until=NOW),
    "disk_full": Gate(code="disk_full", type="mail"),
    "draining": Gate(code="draining", type="mail"),
    "no_worker": Gate(code="no_worker", type="mail", reason="no remote worker waits"),
    "type_paused": Gate(code="type_paused", type="mail", since=NOW, by="user ada", note="later"),
    "breaker_open": Gate(
        code="breaker_open", type="mail", since=NOW, until=NOW + 1, reason="9 of 10 failed"
    ),
    "type_limit": Gate(
        code="type_limit", type="mail", running=2, limit=2, running_ids=("one", "two")
    ),
    "key_limit": Gate(
        code="key_limit", type="mail", key="acme", running=1, limit=1, running_ids=("one",),
        ahead=3,
    ),
    "rate_limited": Gate(code="rate_limited", type="mail", until=NOW),
    "host_resting": Gate(code="host_resting", type="mail", until=NOW),
    "pool_full": Gate(code="pool_full", type="mail", pool="heavy", running=2, limit=2),
    "jobs_ahead": Gate(code="jobs_ahead", type="mail", ahead=10_000, more=True),
}  # fmt: skip


def test_there_is_a_sample_of_every_reason() -> None:
    assert tuple(GATES) == CODES


@pytest.mark.parametrize("code", CODES)
def test_every_reason_has_its_words_and_all_its_data(code: str) -> None:
    gate = GATES[code]
    [reason] = json.loads(why_type_json(WhyType("mail", [gate], [])))["gates"]
    assert (reason.pop("code"), reason.pop("type")) == (code, "mail")
    assert reason.pop("detail") == gate.detail
    known = msgspec.structs.asdict(gate)
    del known["code"], known["type"]
    moment = clock.rfc3339(NOW)
    if code in ("scheduled", "retry_backoff"):
        assert reason.pop("run_at") == moment
        del known["until"]
    if code == "retry_backoff":
        assert reason.pop("last_error") == known.pop("reason")
    moments = {
        name: clock.rfc3339(known.pop(name)) for name in ("since", "until") if known.get(name)
    }
    ids = {"running_ids": list(known.pop("running_ids"))} if known["running_ids"] else {}
    assert reason == {name: each for name, each in known.items() if each} | moments | ids


def test_more_than_are_counted_is_said() -> None:
    assert GATES["jobs_ahead"].detail == "more than 10,000 jobs go before it"
    assert "'acme'" in GATES["key_limit"].detail
