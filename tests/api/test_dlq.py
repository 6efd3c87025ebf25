"""Dead letters over HTTP: looked at, replayed with and without corrections, discarded."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from tests.api.support import JSON, Daemon
from tests.api.test_bad_input import INVALID, assert_refused, send
from tests.api.test_refusals import assert_problem

NOBODY = "01a1edeb-c0e8-7000-ae67-cc325cd735cb"


@pytest.fixture(scope="module")
def dead(daemon: Daemon) -> Any:
    """A dead job that every test leaves as it is."""
    return daemon.finish("picky", payload="bad")


def test_a_job_is_corrected_and_completes(daemon: Daemon) -> None:
    job = daemon.finish("picky", payload={"n": 1, "x": "bad"}, key="corrected")
    assert job["status"] == "dead"
    body = b'{"payload": {"n": 1.10, "x": "good"}, "note": "a typo"}'
    reply = daemon.ask("POST", f"/dlq/{job['id']}/replay", body)
    assert reply.status == 200
    assert b'"payload":{"n": 1.10, "x": "good"}' in reply.body
    replayed = reply.document
    assert (replayed["failures"], replayed["id"]) == (0, job["id"])
    assert replayed["created_at"] == job["created_at"]
    assert replayed["run_at"] > job["run_at"]
    done = daemon.get(f"/jobs/{job['id']}?wait=20")
    assert (done["status"], done["attempt"], done["failures"]) == ("completed", 2, 0)
    history = daemon.get(f"/jobs/{job['id']}/attempts")
    assert [one["outcome"] for one in history["attempts"]] == ["failed", "completed"]
    [change] = history["changes"]
    assert (change["action"], change["note"], change["attempt"]) == ("replay", "a typo", 1)
    assert (change["actor"], change["edited"]) == ("127.0.0.1", True)
    assert change["payload_before"] == {"n": 1, "x": "bad"}


def test_over_the_unix_socket_the_user_is_known(daemon: Daemon) -> None:
    job = daemon.finish("fail")
    path = f"/dlq/{job['id']}"
    assert daemon.ask("POST", f"{path}/replay", over_unix=True).status == 200
    daemon.get(f"/jobs/{job['id']}?wait=20")
    found = daemon.get(path)
    assert [one["actor"] for one in found["changes"]] == [f"user {getpass.getuser()}"]
    assert [one["outcome"] for one in found["attempts"]] == ["failed", "failed"]
    assert (found["status"], found["failures"], found["attempt"]) == ("dead", 1, 2)


def test_the_list_has_dead_jobs_only_newest_first(daemon: Daemon) -> None:
    ids = [daemon.finish("marked")["id"] for _ in range(3)][::-1]
    page = daemon.get("/dlq?type=marked&limit=2")
    assert [job["id"] for job in page["jobs"]] == ids[:2]
    rest = daemon.get(f"/dlq?type=marked&limit=2&cursor={page['next_cursor']}")
    assert ([job["id"] for job in rest["jobs"]][:1], page["jobs"][0]["status"]) == (ids[2:], "dead")
    assert {job["status"] for job in daemon.get("/dlq?limit=500")["jobs"]} == {"dead"}


@pytest.mark.parametrize("query", ["status=dead", "limit=0", "limit=x", "cursor=x", "type=%00"])
def test_a_list_names_a_bad_parameter(daemon: Daemon, query: str) -> None:
    reply = daemon.ask("GET", f"/dlq?{query}")
    assert_refused(reply, 400, INVALID, query.partition("=")[0])


@pytest.mark.parametrize("action", ["", "/replay", "/discard"])
def test_what_is_not_there_is_not_found(daemon: Daemon, action: str) -> None:
    body = None if not action else b'{"note": "x"}'
    reply = daemon.ask("POST" if action else "GET", f"/dlq/{NOBODY}{action}", body)
    assert_problem(reply, 404, "not_found")


def test_what_is_not_dead_is_told_as_what_it_is(daemon: Daemon) -> None:
    job_id = daemon.finish("echo")["id"]
    reply = daemon.ask("GET", f"/dlq/{job_id}")
    assert_problem(reply, 404, "not_found")
    assert f"GET /jobs/{job_id}" in reply.document["detail"]
    for action in ("replay", "discard"):
        reply = daemon.post(f"/dlq/{job_id}/{action}", {"note": "x"})
        assert_problem(reply, 409, "not_dead")
        assert "completed" in reply.document["detail"]


NO_NOTE: tuple[object, ...] = (5, True, [], {}, "", "  ", "a\nb", "a\0", "x" * 1001)
BAD_FIELDS = [
    ("replay", {"note": wrong}, 400, INVALID, "note") for wrong in NO_NOTE
] + [
    ("discard", {"note": wrong}, 400, INVALID, "note") for wrong in (*NO_NOTE, None)
] + [
    ("discard", {}, 400, INVALID, "note"),
    ("replay", {"confirm": "yes"}, 400, INVALID, "confirm"),
    ("replay", {"confirm": 1}, 400, INVALID, "confirm"),
    ("replay", {"payloud": 1}, 400, INVALID, "payloud"),
    ("replay", {"payload": "x" * 1100}, 413, "payload_too_large", "payload"),
    ("replay", {"payload": json.loads("[" * 129 + "]" * 129)}, 400, INVALID, "payload"),
    ("discard", {"note": "x", "confirm": True}, 400, INVALID, "confirm"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "fields", "status", "code", "field"), BAD_FIELDS)
def test_every_bad_field_is_named_and_nothing_happens(
    daemon: Daemon, dead: Any, action: str, fields: Any, status: int, code: str, field: str
) -> None:
    assert_refused(send(daemon, f"/dlq/{dead['id']}/{action}", fields), status, code, field)
    assert daemon.get(f"/dlq/{dead['id']}")["changes"] == []


@pytest.mark.parametrize("body", [b"[]", b"{", b"5", b'"x"'])
@pytest.mark.parametrize("action", ["replay", "discard"])
def test_a_body_is_an_object(daemon: Daemon, dead: Any, action: str, body: bytes) -> None:
    assert daemon.ask("POST", f"/dlq/{dead['id']}/{action}", body).status == 400
    assert daemon.ask("POST", "/dlq/replay", body).status == 400


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"payload":null,"note":null}'])
def test_a_replay_needs_no_body(daemon: Daemon, body: bytes | None) -> None:
    job = daemon.finish("fail")
    assert daemon.ask("POST", f"/dlq/{job['id']}/replay", body, JSON).status == 200
    assert daemon.get(f"/jobs/{job['id']}?wait=20")["attempt"] == 2


def test_a_marked_type_is_replayed_on_purpose_only(daemon: Daemon) -> None:
    job = daemon.finish("marked")
    for path, body in ((f"/dlq/{job['id']}/replay", {}), ("/dlq/replay", {"type": "marked"})):
        for more in ({}, {"confirm": False}):
            assert_problem(daemon.post(path, body | more), 409, "confirm_needed")
    dry = daemon.post("/dlq/replay", {"type": "marked", "dry_run": True})
    assert (dry.status, dry.document["confirm_needed"]) == (200, True)
    assert daemon.post(f"/dlq/{job['id']}/replay", {"confirm": True}).status == 200


def test_a_discarded_job_is_over(daemon: Daemon) -> None:
    job = daemon.finish("fail")
    reply = daemon.post(f"/dlq/{job['id']}/discard", {"note": "never mind"})
    assert (reply.status, reply.document["status"]) == (200, "discarded")
    assert reply.document["finished_at"] > job["finished_at"]
    [change] = daemon.get(f"/jobs/{job['id']}/attempts")["changes"]
    assert (change["action"], change["note"]) == ("discard", "never mind")
    assert daemon.ask("GET", f"/dlq/{job['id']}").status == 404
    assert_problem(daemon.post(f"/dlq/{job['id']}/replay"), 409, "not_dead")


def test_a_key_that_a_newer_job_has_stays_there(own_daemon: Daemon) -> None:
    """With no window a key is free as soon as its job is over."""
    config = own_daemon.place / "jobqueued.toml"
    config.write_text(config.read_text().replace("[queue]", '[queue]\nidempotency_window = "0s"'))
    own_daemon.reload()
    old = own_daemon.finish("fail", idempotency_key="k")
    newer = own_daemon.finish("fail", idempotency_key="k")
    assert old["id"] != newer["id"]
    reply = own_daemon.post(f"/dlq/{old['id']}/replay")
    assert_problem(reply, 409, "idempotency_key_taken")
    assert newer["id"] in reply.document["detail"]
    many = own_daemon.post("/dlq/replay", {"type": "fail"}).document
    assert (many["count"], many["ids"], many["skipped"]) == (1, [newer["id"]], 1)


def dead_jobs(daemon: Daemon, number: int) -> list[str]:
    """Dead jobs of a type that no other test has any of, oldest first."""
    jobs = [daemon.submit("picky", payload="bad")["id"] for _ in range(number)]
    for job_id in jobs:
        daemon.get(f"/jobs/{job_id}?wait=20")
    return jobs


def test_many_are_replayed_oldest_first(own_daemon: Daemon) -> None:
    ids = dead_jobs(own_daemon, 5)
    dry = own_daemon.post("/dlq/replay", {"type": "picky", "dry_run": True}).document
    assert (dry["count"], dry["ids"], dry["dead"], dry["dry_run"]) == (5, ids, 5, True)
    assert own_daemon.get("/stats")["dlq_depth"] == 5
    # A pace of one an hour: all but the first wait for their time.
    paced = {"type": "picky", "limit": 2, "pace_per_second": 1 / 3600, "note": "slowly"}
    first = own_daemon.post("/dlq/replay", paced).document
    assert (first["count"], first["ids"], first["more"]) == (2, ids[:2], True)
    assert first["next_cursor"] == ids[1]
    second = own_daemon.get(f"/jobs/{ids[1]}")
    assert second["status"] == "scheduled"
    assert [one["note"] for one in own_daemon.get(f"/jobs/{ids[1]}/attempts")["changes"]] == [
        "slowly"
    ]
    later = {"type": "picky", "cursor": ids[2], "delay_seconds": 3600}
    rest = own_daemon.post("/dlq/replay", later).document
    assert (rest["ids"], rest["more"], rest["next_cursor"]) == (ids[3:], False, None)
    assert {own_daemon.get(f"/jobs/{one}")["status"] for one in ids[3:]} == {"scheduled"}
    totals = own_daemon.get("/stats")["totals"]
    assert totals["replayed"] == 4


def test_a_full_queue_takes_as_many_as_there_is_room_for(own_daemon: Daemon) -> None:
    config = own_daemon.place / "jobqueued.toml"
    ids = dead_jobs(own_daemon, 3)
    config.write_text(config.read_text().replace("max_depth = 200", "max_depth = 2"))
    own_daemon.reload()
    waiting = {"type": "picky", "delay_seconds": 3600}
    done = own_daemon.post("/dlq/replay", waiting).document
    assert (done["ids"], done["more"], done["next_cursor"]) == (ids[:2], True, ids[1])
    refused = own_daemon.post("/dlq/replay", waiting)
    assert_problem(refused, 429, "queue_full")
    assert int(refused.headers["Retry-After"]) > 0
    assert own_daemon.post("/dlq/replay", waiting | {"dry_run": True}).status == 200
    # One at a time is what an operator does to get out of trouble.
    assert own_daemon.post(f"/dlq/{ids[2]}/replay").status == 200


def test_a_type_that_is_gone_is_not_replayed(own_daemon: Daemon) -> None:
    job = own_daemon.finish("fail")
    config = own_daemon.place / "jobqueued.toml"
    config.write_text(config.read_text().replace("[types.fail]", "[types.renamed]"))
    own_daemon.reload()
    assert_problem(own_daemon.post(f"/dlq/{job['id']}/replay"), 409, "type_gone")
    assert_problem(own_daemon.post("/dlq/replay", {"type": "fail"}), 409, "type_gone")
    assert own_daemon.post("/dlq/replay", {"type": "fail", "dry_run": True}).document["count"] == 1
    assert own_daemon.post(f"/dlq/{job['id']}/discard", {"note": "gone"}).status == 200


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({"type": wrong}, "type") for wrong in (5, True, None)),
        *(({"limit": wrong}, "limit") for wrong in (0, -1, 1001, 1.5, "5", True)),
        *(({"pace_per_second": wrong}, "pace_per_second") for wrong in (0, -1, "5", 10**30)),
        *(({"delay_seconds": wrong}, "delay_seconds") for wrong in (-1, "5", 10**30)),
        *(({"cursor": wrong}, "cursor") for wrong in ("x", "", 5, "ü" * 36)),
        *(({"dry_run": wrong}, "dry_run") for wrong in ("true", 1)),
        ({"confirm": 1}, "confirm"),
        ({"note": ""}, "note"),
        ({"payload": {}}, "payload"),
        ({"dry": True}, "dry"),
    ],
)
def test_every_bad_field_of_a_bulk_replay_is_named(
    daemon: Daemon, dead: Any, fields: dict[str, Any], field: str
) -> None:
    reply = send(daemon, "/dlq/replay", {"type": "picky"} | fields)
    assert_refused(reply, 400, INVALID, field)
    assert daemon.get(f"/dlq/{dead['id']}")["changes"] == []


def test_a_type_that_never_was_is_told(daemon: Daemon) -> None:
    reply = send(daemon, "/dlq/replay", {"type": "pickie"})
    assert_refused(reply, 400, "unknown_type", "type")
    assert "picky" in reply.document["detail"]
    assert_refused(send(daemon, "/dlq/replay", {}), 400, INVALID, "type")
