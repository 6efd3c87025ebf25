"""`status` and `show` with a daemon, and from the file without one."""

from __future__ import annotations

import json
import os

from tests.cli.support import Serving


def test_one_screen_for_people(daemon: Serving) -> None:
    daemon.run("submit", "--wait", "greet")
    daemon.run("submit", "--wait", "fail")
    done = daemon.run("status")
    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("jobqueued ")
    assert ": ready, up " in first
    for word in ("waiting", "dead", "durability full", "greet", "COMPLETED", "POOL", "of 10"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout


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
