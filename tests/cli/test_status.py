"""`status` and `show` with a daemon, and from the file without one."""

from __future__ import annotations

import json
import os
import socket

import pytest

from jobqueued.cli.status import kept_jobs, state_of
from jobqueued.cli.text import milliseconds
from tests.cli.support import Serving


def test_one_screen_for_people(daemon: Serving) -> None:
    daemon.run("submit", "--wait", "greet")
    daemon.run("submit", "--wait", "fail")
    done = daemon.run("status")
    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("jobqueued ")
    assert ": ready, up " in first
    for word in ("waiting", "dead", "durability full", "greet", "COMPLETED", "POOL", "of 10",
                 "unused), write-ahead", "kept: ", "completed for 7d", "dead for 30d",
                 "the next goes in 6d 23h"):  # fmt: skip
        assert word in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout


def test_the_process_to_send_signals_to_is_shown() -> None:
    stats = {"version": "1", "ready": True, "draining": False, "uptime_seconds": 61, "reasons": []}
    assert state_of({**stats, "pid": 4711}, None).plain == (
        "jobqueued 1: ready, up 1m 1s, process 4711"
    )


RETENTION = {
    "outcomes": {
        "completed": {"keep_seconds": 604_800, "jobs": 12},
        "dead": {"keep_seconds": 2_592_000, "jobs": 3},
        "cancelled": {"keep_seconds": 604_800, "jobs": 0},
    },
    "next_deletion_at": "2026-01-31T12:00:00.000Z",
}
NEXT_DELETION = milliseconds("2026-01-31T12:00:00.000Z")


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        (NEXT_DELETION - 90_000, "; the next goes in 1m 30s"),
        (NEXT_DELETION, "; old ones are going now"),
    ],
)
def test_what_is_kept_is_told_in_a_line(moment: int, end: str) -> None:
    assert kept_jobs(RETENTION, moment) == "kept: 12 completed for 7d, 3 dead for 30d" + end


def test_nothing_kept_is_no_line() -> None:
    assert kept_jobs(RETENTION | {"next_deletion_at": None}, 0) == ""
    assert kept_jobs(None, 0) == ""


def test_the_api_answer_for_programs(daemon: Serving) -> None:
    document = json.loads(daemon.run("status", "--json").stdout)
    assert document["ready"] is True
    assert document["store"]["durability"] == "full"
    assert document["pools"]["default"] == {"workers": 10, "busy": 0} | document["pools"]["default"]


def test_a_second_daemon_is_refused(daemon: Serving) -> None:
    done = daemon.run("serve")
    assert done.returncode == 75
    assert f"(pid {daemon.process.pid})" in done.stderr
    assert daemon.run("status").returncode == 0


def test_without_a_daemon_the_file_answers(own_daemon: Serving) -> None:
    payload = '{"n":1.10}'
    job_id = own_daemon.submit("greet", payload)
    own_daemon.run("wait", job_id)
    own_daemon.submit("greet", "--delay", "1h")
    assert own_daemon.stop() == 0
    before = {name: (own_daemon.place / name).stat() for name in os.listdir(own_daemon.place)}

    status = own_daemon.run("status")
    assert status.returncode == 0
    assert "not running" in status.stdout
    assert f"no daemon is running; this is from {own_daemon.database}" in status.stderr
    counts = json.loads(own_daemon.run("status", "--json").stdout)["counts"]
    assert (counts["completed"], counts["scheduled"]) == (1, 1)

    shown = own_daemon.run("show", job_id)
    assert shown.returncode == 0
    assert "completed" in shown.stdout
    assert "no daemon is running" in shown.stderr
    assert f'"payload":{payload}' in own_daemon.run("show", job_id, "--json").stdout
    assert own_daemon.run("show", "other").returncode == 1

    after = {name: (own_daemon.place / name).stat() for name in os.listdir(own_daemon.place)}
    assert after.keys() == before.keys()
    assert after["jobs.db"].st_mtime_ns == before["jobs.db"].st_mtime_ns


def test_a_damaged_file_exits_65(own_daemon: Serving) -> None:
    own_daemon.stop()
    own_daemon.database.write_bytes(b"this is no database at all" * 1000)
    for arguments in (["status"], ["show", "x"], ["doctor"]):
        done = own_daemon.run(*arguments)
        assert done.returncode == 65, done.stderr


def test_a_named_daemon_that_is_away_is_not_replaced_by_a_file(own_daemon: Serving) -> None:
    own_daemon.stop()
    named = f"unix:{own_daemon.place}/jobqueued.sock"
    for arguments in (["status"], ["show", "x"]):
        for done in (
            own_daemon.run(*arguments, "--url", named),
            own_daemon.run(*arguments, JOBQUEUED_URL=named),
        ):
            assert (done.returncode, done.stdout) == (69, "")
            assert done.stderr.startswith(f"error: no daemon answers ({named}: ")


def test_a_daemon_that_holds_the_file_but_does_not_answer_is_told(own_daemon: Serving) -> None:
    (own_daemon.place / "jobqueued.sock").unlink()
    done = own_daemon.run("status")
    assert done.returncode == 0
    assert "jobqueued: not answering" in done.stdout
    held = f"note: process {own_daemon.process.pid} holds the database, but no daemon answers ("
    assert done.stderr.startswith(held)


def test_a_second_daemon_with_another_database_leaves_the_socket_alone(
    own_daemon: Serving,
) -> None:
    config = (own_daemon.place / "jobqueued.toml").read_text().replace("jobs.db", "other.db")
    (own_daemon.place / "other.toml").write_text(config)
    done = own_daemon.run("serve", "--config", "other.toml")
    assert done.returncode == 74
    assert "jobqueued.sock: a daemon is answering there" in done.stderr
    assert own_daemon.run("status", "--json").stdout.startswith('{"version"')


def test_the_socket_of_another_daemon_outlives_this_one(own_daemon: Serving) -> None:
    place = own_daemon.place / "jobqueued.sock"
    place.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place))
        assert own_daemon.stop() == 0
        assert place.exists()
