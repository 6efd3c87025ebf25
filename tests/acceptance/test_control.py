"""Pauses, rates and breakers of the real daemon, through kill -9 and reloads."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving
from tests.acceptance.test_reload import ECHO, reload
from tests.api.support import until

DEPENDENT = """
[types.dependent]
command = ["test", "-e", "{place}/up"]
max_retries = 20
backoff = { base = "0s", jitter = "0s" }
breaker = { error_rate = 0.9, window = "1m", min_attempts = 5, probe_every = "500ms" }
"""
TIMED = """
[types.timed]
command = ["date", "+%s.%N"]
result = "stdout"
rate = "RATE"
"""


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def type_of(serving: Serving, name: str) -> Any:
    return serving.get(f"/types/{name}")


def test_a_pause_survives_kill_9_and_holds_from_its_answer_on(serve: Serve) -> None:
    serving = serve(ECHO + GATED)
    paused = serving.post("/types/echo/pause", {"note": "the printer burns"}).document["paused"]
    job_id = serving.submit("echo", payload=[1])["id"]
    serving.kill()
    serving.start()
    assert type_of(serving, "echo")["paused"] == paused
    assert serving.get(f"/jobs/{job_id}?wait=0.3")["status"] == "pending"
    serving.let_through(serving.at_gate())
    assert serving.job(job_id)["attempt"] == 0
    serving.post("/types/echo/resume")
    assert serving.wait(job_id)["result"] == [1]


def test_a_type_removed_and_added_again_keeps_its_pause(serve: Serve) -> None:
    serving = serve(ECHO + GATED)
    serving.post("/types/echo/pause", {})
    reload(serving, GATED)
    gone = type_of(serving, "echo")
    assert (gone["configured"], gone["kind"]) == (False, None)
    assert gone["paused"] is not None
    reload(serving, ECHO + GATED)
    assert type_of(serving, "echo")["paused"] == gone["paused"]


def test_a_rate_is_kept_over_real_jobs_and_through_kill_9(serve: Serve) -> None:
    """A handler begins after it was let through: so many at most can have begun by then."""
    rate, jobs = 10, 30
    serving = serve(TIMED.replace("RATE", f"{rate}/s"))
    ids = [serving.submit("timed")["id"] for _ in range(jobs)]
    until(lambda: serving.type_counts("timed").get("completed", 0) >= jobs // 2)
    serving.kill()
    serving.start()
    done = [serving.wait(job_id) for job_id in ids]
    attempts = [each for job in done for each in serving.attempts(job["id"])]
    allowed = sorted(seconds(each["started_at"]) for each in attempts)
    begun = sorted(float(job["result"]) for job in done)
    for number, moment in enumerate(begun):
        assert number + 1 <= rate + rate * (moment - allowed[0]) + 1e-3
    for first, earlier in enumerate(allowed):
        for number, moment in enumerate(allowed[first:], 1):
            assert number <= rate + rate * (moment - earlier) + 1e-3


def test_a_changed_rate_holds_at_once_and_grants_no_burst(serve: Serve) -> None:
    serving = serve(TIMED.replace("RATE", "1/d"))
    ids = [serving.submit("timed")["id"] for _ in range(25)]
    serving.wait(ids[0])
    reload(serving, TIMED.replace("RATE", "20/s"))
    done = [serving.wait(job_id) for job_id in ids]
    allowed = sorted(seconds(job["started_at"]) for job in done)
    for number, moment in enumerate(allowed[1:], 1):
        assert number <= 20 * (moment - allowed[0]) + 1e-3


def attempts_of(serving: Serving, ids: list[str]) -> int:
    return sum(serving.job(job_id)["attempt"] for job_id in ids)


def test_a_dead_dependency_opens_the_breaker_and_its_return_closes_it(serve: Serve) -> None:
    serving = serve(DEPENDENT)
    ids = [serving.submit("dependent")["id"] for _ in range(20)]
    until(lambda: type_of(serving, "dependent")["breaker"]["state"] == "open")
    opened = type_of(serving, "dependent")["breaker"]
    assert "attempts failed within 1m, the last: exit code 1" in opened["reason"]
    spent = attempts_of(serving, ids)
    until(lambda: attempts_of(serving, ids) >= spent + 2)
    serving.kill()
    serving.start()
    again = type_of(serving, "dependent")["breaker"]
    assert (again["since"], again["reason"]) == (opened["since"], opened["reason"])
    until(lambda: attempts_of(serving, ids) >= spent + 4)
    begun = [seconds(each["started_at"]) for job_id in ids for each in serving.attempts(job_id)]
    probes = sorted(moment for moment in begun if moment > seconds(opened["since"]))
    assert len(begun) - len(probes) <= 5 + 2 * 10
    for before, after in pairwise([seconds(opened["since"]), *probes]):
        assert after - before > 0.499

    (serving.place / "up").touch()
    assert {serving.wait(job_id)["status"] for job_id in ids} == {"completed"}
    assert type_of(serving, "dependent")["breaker"]["state"] == "closed"
    log = serving.log()
    assert log.count("type dependent: breaker open") == 1
    assert log.count("type dependent: breaker closed") == 1


def test_a_reload_loses_no_open_breaker(serve: Serve) -> None:
    serving = serve(DEPENDENT)
    ids = [serving.submit("dependent")["id"] for _ in range(10)]
    until(lambda: type_of(serving, "dependent")["breaker"]["state"] != "closed")
    since = type_of(serving, "dependent")["breaker"]["since"]
    reload(serving, DEPENDENT.replace('"500ms"', '"100ms"').replace("= 5,", "= 500,"))
    assert type_of(serving, "dependent")["breaker"]["since"] == since
    (serving.place / "up").touch()
    assert {serving.wait(job_id)["status"] for job_id in ids} == {"completed"}


def test_a_type_that_only_waits_for_its_rate_costs_nothing(serve: Serve) -> None:
    """Nobody looks again and again whether a token has come."""
    serving = serve(TIMED.replace("RATE", "1/d") + ECHO)
    first, *_ = [serving.submit("timed")["id"] for _ in range(5)]
    serving.wait(first)
    commits = serving.get("/stats")["store"]["commits"]
    serving.finish("echo")
    assert serving.get("/stats")["store"]["commits"] - commits < 10
