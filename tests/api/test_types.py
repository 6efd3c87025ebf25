"""Job types over HTTP: what there is, pausing and resuming."""

from __future__ import annotations

import os
import pwd

import pytest

from tests.api.support import Daemon


def test_every_type_is_listed_with_its_settings(daemon: Daemon) -> None:
    daemon.finish("echo")
    found = {each["name"]: each for each in daemon.get("/types")["types"]}
    assert {"echo", "fail", "again", "gate"} <= set(found)
    assert list(found) == sorted(found)
    echo = found["echo"]
    assert echo["counts"]["completed"] >= 1
    assert echo["durations"]["p50_ms"] <= echo["durations"]["p95_ms"]
    assert echo["rates"]["completed"] > 0
    expected = {
        "configured": True, "kind": "command", "pool": "default", "paused": None,
        "max_running": None, "rate": None, "timeout": "5m", "max_retries": 0, "priority": 5,
        "confirm_replay": False, "payload_schema": False,
        "breaker": {"state": "closed", "since": None, "until": None, "reason": None},
    }  # fmt: skip
    assert {name: echo[name] for name in expected} == expected


def test_one_type_is_shown_as_in_the_list(daemon: Daemon) -> None:
    assert daemon.get("/types/gate")["name"] == "gate"


@pytest.mark.parametrize("action", ["", "/pause", "/resume"])
def test_an_unknown_type_is_not_found_but_guessed(daemon: Daemon, action: str) -> None:
    reply = daemon.ask("POST" if action else "GET", f"/types/ehco{action}")
    assert (reply.status, reply.document["code"]) == (404, "not_found")
    assert 'did you mean "echo"' in reply.document["detail"]


def test_a_pause_holds_until_it_is_resumed(daemon: Daemon) -> None:
    reply = daemon.post("/types/echo/pause", {"note": "the printer burns"})
    assert reply.status == 200
    paused = reply.document["paused"]
    assert (paused["by"], paused["note"]) == ("127.0.0.1", "the printer burns")
    job = daemon.submit("echo")
    again = daemon.post("/types/echo/pause", {"note": "another"})
    assert (again.status, again.document["paused"]) == (200, paused | {"note": "another"})
    assert daemon.get("/stats")["types"]["echo"]["paused"] is True
    assert daemon.get(f"/jobs/{job['id']}?wait=0.2")["status"] == "pending"
    resumed = daemon.post("/types/echo/resume")
    assert (resumed.status, resumed.document["paused"]) == (200, None)
    assert daemon.get(f"/jobs/{job['id']}?wait=20")["status"] == "completed"
    assert daemon.post("/types/echo/resume", {}).status == 200


def test_over_the_unix_socket_the_user_is_known(daemon: Daemon) -> None:
    reply = daemon.ask("POST", "/types/fail/pause", over_unix=True)
    assert reply.document["paused"]["by"] == f"user {pwd.getpwuid(os.getuid()).pw_name}"
    assert reply.document["paused"]["note"] is None
    daemon.post("/types/fail/resume")


@pytest.mark.parametrize(
    ("body", "field"), [({"note": 7}, "note"), ({"note": "x" * 1001}, "note"), ({"why": ""}, "why")]
)
def test_a_bad_pause_changes_nothing(daemon: Daemon, body: object, field: str) -> None:
    reply = daemon.post("/types/echo/pause", body)
    assert (reply.status, reply.fields) == (400, [field])
    assert daemon.get("/types/echo")["paused"] is None


@pytest.mark.parametrize("note", ["two\nlines", "\u001b[2J", " ", "", "x" * 1001, 5])
def test_the_note_of_a_pause_is_a_line_of_text(daemon: Daemon, note: object) -> None:
    reply = daemon.post("/types/again/pause", {"note": note})
    assert reply.status == 400
    assert [fault["field"] for fault in reply.document["errors"]] == ["note"]
    assert daemon.get("/types/again")["paused"] is None
