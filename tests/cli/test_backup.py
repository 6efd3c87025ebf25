"""Backups of a database in use and of one at rest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from tests.cli.support import Done, Serving


def test_a_running_daemon_is_backed_up_whole(own_daemon: Serving) -> None:
    ids = [own_daemon.submit("greet", "--delay", "1h") for _ in range(3)]
    done = own_daemon.run("backup", "copy.db", "--json")
    assert done.returncode == 0, done.stderr
    copy = own_daemon.place / "copy.db"
    assert json.loads(done.stdout) == {"path": "copy.db", "bytes": copy.stat().st_size, "jobs": 3}
    with sqlite3.connect(copy) as connection:
        kept = [row[0] for row in connection.execute("SELECT id FROM jobs ORDER BY seq")]
    connection.close()
    assert kept == ids

    again = own_daemon.run("backup", "copy.db")
    assert again.returncode == 2
    assert "overwrites nothing" in again.stderr

    own_daemon.stop()
    rested = own_daemon.run("backup", "rested.db")
    assert rested.returncode == 0
    assert rested.stdout.startswith("rested.db: 3 jobs, ")


def test_without_a_database_there_is_nothing_to_back_up(run: Callable[..., Done]) -> None:
    done = run("backup", "copy.db")
    assert done.returncode == 74
    assert done.stderr.endswith("/state/jobqueued/jobs.db: No such file or directory\n")


def test_a_copy_serves_like_the_original(own_daemon: Serving) -> None:
    job_id = own_daemon.submit("greet", "--delay", "1h")
    own_daemon.run("backup", "copy.db")
    own_daemon.stop()
    (own_daemon.place / "copy.db").replace(own_daemon.database)
    for leftover in own_daemon.place.glob("jobs.db-*"):
        leftover.unlink()
    own_daemon.start()
    assert own_daemon.job(job_id)["status"] == "scheduled"


def test_errors_name_the_destination(own_daemon: Serving) -> None:
    missing = own_daemon.run("backup", "/nowhere/copy.db")
    assert missing.returncode == 2
    assert "DEST is /nowhere/copy.db: there is no directory /nowhere" in missing.stderr
    refused = own_daemon.run("backup", "/proc/copy.db")
    assert refused.returncode == 74
    assert refused.stderr.startswith("error: /proc/copy.db: ")
