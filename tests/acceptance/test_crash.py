"""kill -9 at any moment under load: nothing is lost, nothing runs twice at once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.load import (
    RECORDING,
    Submitters,
    prepare_notes,
    read_notes,
    started_after,
    under_load,
    unfinished,
)
from tests.acceptance.support import Serving
from tests.api.support import until

RESUME_SECONDS = 2.0
WORKERS = 4
CONFIG = f"[pools.default]\nworkers = {WORKERS}\n" + RECORDING


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, id="5-rounds"),
        pytest.param(50, id="50-rounds", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
def test_jobs_survive_kill_after_kill(prepare: Serve, rounds: int) -> None:
    serving = prepare(CONFIG)
    prepare_notes(serving.place)
    serving.start()
    with under_load(serving) as submitters:
        resumed = crash_again_and_again(serving, rounds)
    serving.until_ready()
    jobs = [serving.wait(job_id) for job_id in submitters.acknowledged.values()]
    check_jobs(serving, submitters, jobs)
    counts = serving.get("/stats")["counts"]
    assert serving.stop() == 0
    check_database(serving, counts)
    assert serving.processes() == set()
    print(f"{len(jobs)} jobs, {sum(job['attempt'] for job in jobs)} attempts;", describe(resumed))
    assert max(resumed) < RESUME_SECONDS


def crash_again_and_again(serving: Serving, rounds: int) -> list[float]:
    """Kill and restart; after every other restart wait until what ran runs again.

    How many seconds after the start of the process each of them did.
    """
    chance = random.Random(rounds)
    resumed: list[float] = []
    for number in range(rounds):
        # The moment is meant to be any: while it starts, while it recovers, while it works.
        time.sleep(chance.uniform(0, 0.8))
        interrupted = kill(serving)
        serving.launch()
        if number % 2 == 0:
            # Who loses a second attempt waits for its backoff, and then for its turn.
            first = [job_id for job_id, attempt in interrupted.items() if attempt == 1]
            resumed += [seconds_until_resumed(serving, job_id, 1) for job_id in first]
    return resumed


def kill(serving: Serving) -> dict[str, int]:
    """The jobs that this daemon ran when it was killed, and the attempts they were at."""
    since = serving.launched_at
    serving.kill()
    notes = read_notes(serving.place)
    of_this_daemon = {note.job_id for note in notes if note.at > since}
    return {job: attempt for job, attempt in unfinished(notes).items() if job in of_this_daemon}


def seconds_until_resumed(serving: Serving, job_id: str, attempt: int) -> float:
    again: float = until(partial(started_after, serving.place, job_id, attempt))
    return again - serving.launched_at


def check_jobs(serving: Serving, submitters: Submitters, jobs: list[dict[str, Any]]) -> None:
    """None lost, none doubled, each completed once, with bounded attempts that never met."""
    assert sorted(job["id"] for job in serving.all_jobs()) == sorted(job["id"] for job in jobs)
    assert len({job["id"] for job in jobs}) == len(submitters.acknowledged)
    assert {job["status"] for job in jobs} == {"completed"}
    notes = read_notes(serving.place)
    assert [note for note in notes if note.word == "overlap"] == []
    assert {note.job_id for note in notes if note.word == "end"} == {job["id"] for job in jobs}
    for job in jobs:
        check_attempts(job, serving.attempts(job["id"]))
    starts = Counter((note.job_id, note.attempt) for note in notes if note.word == "start")
    assert set(starts.values()) == {1}, "an attempt was started twice"


def check_attempts(job: Mapping[str, Any], attempts: list[Any]) -> None:
    assert [attempt["number"] for attempt in attempts] == list(range(1, job["attempt"] + 1))
    assert len(attempts) <= 1 + job["max_retries"]
    outcomes = [attempt["outcome"] for attempt in attempts]
    assert outcomes == ["lost"] * job["failures"] + ["completed"]


def check_database(serving: Serving, shown: Mapping[str, int]) -> None:
    """The file is whole, and the counts that were shown are those of its rows."""
    with closing(sqlite3.connect(serving.place / "jobs.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
    assert {status: number for status, number in shown.items() if number} == dict(rows)


def describe(resumed: list[float]) -> str:
    ordered = sorted(resumed)
    return (
        f"{len(ordered)} resumed after restart: median {ordered[len(ordered) // 2]:.2f} s,"
        f" longest {ordered[-1]:.2f} s"
    )


def test_what_ran_goes_before_what_waits(prepare: Serve) -> None:
    serving = prepare("[pools.default]\nworkers = 1\n" + RECORDING)
    prepare_notes(serving.place)
    serving.start()
    first = serving.running("record", payload={"seconds": 0.5})
    waiting = [serving.submit("record", payload={"seconds": 0.1})["id"] for _ in range(30)]
    until(lambda: read_notes(serving.place))
    assert list(kill(serving)) == [first]
    serving.start()
    assert seconds_until_resumed(serving, first, 1) < RESUME_SECONDS
    assert {serving.job(job_id)["attempt"] for job_id in waiting} == {0}


def test_no_handler_outlives_a_killed_daemon(prepare: Serve) -> None:
    serving = prepare(CONFIG)
    prepare_notes(serving.place)
    serving.start()
    for _ in range(WORKERS):
        serving.submit("record", payload={"seconds": 600})
    until(lambda: len(read_notes(serving.place)) == WORKERS)
    assert len(serving.processes()) == WORKERS + 2
    serving.kill()
    until(lambda: not serving.processes())


def test_handlers_whose_launcher_is_killed_too_do_not_meet_the_next_attempt(
    prepare: Serve,
) -> None:
    serving = prepare(CONFIG)
    prepare_notes(serving.place)
    serving.start()
    jobs = [serving.submit("record", payload={"seconds": 1})["id"] for _ in range(WORKERS)]
    until(lambda: len(read_notes(serving.place)) == WORKERS)
    os.kill(serving.launcher(), signal.SIGKILL)
    serving.kill()
    serving.start()
    assert {serving.wait(job_id)["status"] for job_id in jobs} == {"completed"}
    assert [note for note in read_notes(serving.place) if note.word == "overlap"] == []


def test_a_cancellation_outlives_the_daemon_that_promised_it(prepare: Serve) -> None:
    stubborn = "trap '' TERM; echo at the gate; while :; do sleep 0.05; done"
    serving = prepare(f'[types.stubborn]\ncommand = ["sh", "-c", "{stubborn}"]\n')
    serving.start()
    job_id = serving.at_gate("stubborn")
    assert serving.post(f"/jobs/{job_id}/cancel").status == 200
    assert serving.job(job_id)["status"] == "processing"
    serving.kill()
    serving.start()
    job = serving.wait(job_id)
    assert (job["status"], job["attempt"]) == ("cancelled", 1)
    assert [one["outcome"] for one in serving.attempts(job_id)] == ["cancelled"]


def test_what_came_due_while_no_daemon_was_there_runs_at_the_start(prepare: Serve) -> None:
    serving = prepare('[types.quick]\ncommand = ["true"]\n').start()
    due = serving.submit("quick", delay_seconds=0.2)["id"]
    expired = serving.submit("quick", delay_seconds=0.1, expires_in_seconds=0.15)["id"]
    later = serving.submit("quick", delay_seconds=3600)["id"]
    serving.kill()
    time.sleep(0.3)
    serving.start()
    assert serving.wait(due)["status"] == "completed"
    assert serving.wait(expired)["status"] == "expired"
    assert serving.job(later)["status"] == "scheduled"
