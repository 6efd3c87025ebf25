"""Starting where something is in the way: the right exit code and a message that helps."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

from tests.acceptance.conftest import Serve
from tests.acceptance.support import BASE, GATED, serve_to_the_end

TYPE = '[types.echo]\ncommand = ["cat"]\n'
SOMEWHERE = BASE + TYPE

LOCK_PATIENCE = 5.0
"""Seconds a start waits for what a dead daemon left; a living one is not waited for."""
DAMAGED, IO_ERROR, BUSY, BAD_CONFIG = 65, 74, 75, 78


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What it said; never a traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def made_database(serve: Serve) -> Path:
    """A database with a job in it, and no daemon."""
    serving = serve(TYPE)
    serving.finish("echo")
    assert serving.stop() == 0
    return serving.place / "jobs.db"


def test_a_second_daemon_on_the_same_database_gives_up_at_once(serve: Serve) -> None:
    serving = serve(GATED)
    job_id = serving.at_gate()
    config = SOMEWHERE.replace("api.sock", "second.sock")
    started = time.monotonic()
    done = serve_to_the_end(serving.place, config)
    assert time.monotonic() - started < LOCK_PATIENCE
    assert done.returncode == BUSY
    assert str(serving.process.pid) in complaint(done)
    serving.let_through(job_id)
    assert serving.wait(job_id)["status"] == "completed"


def test_a_damaged_database_is_refused(serve: Serve) -> None:
    database = made_database(serve)
    content = bytearray(database.read_bytes())
    content[:100] = os.urandom(100)
    database.write_bytes(content)
    done = serve_to_the_end(database.parent, SOMEWHERE)
    assert done.returncode == DAMAGED
    assert str(database) in complaint(done)
    assert database.read_bytes() == bytes(content)


def test_a_database_that_was_cut_short_is_refused(serve: Serve) -> None:
    database = made_database(serve)
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 2])
    done = serve_to_the_end(database.parent, SOMEWHERE)
    assert done.returncode == DAMAGED
    assert f"{database} is" in complaint(done)


def test_a_newer_schema_is_refused_untouched(serve: Serve) -> None:
    database = made_database(serve)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    before = database.read_bytes()
    done = serve_to_the_end(database.parent, SOMEWHERE)
    assert done.returncode == DAMAGED
    assert "9999" in complaint(done)
    assert database.read_bytes() == before
    assert [log for log in database.parent.glob("jobs.db-wal") if log.stat().st_size] == []


def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    database = tmp_path / "jobs.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE precious (thing)")
    before = database.read_bytes()
    done = serve_to_the_end(tmp_path, SOMEWHERE)
    assert done.returncode == DAMAGED
    assert "not a jobqueued database" in complaint(done)
    assert database.read_bytes() == before


def test_a_bad_configuration_is_refused_with_every_fault(tmp_path: Path) -> None:
    done = serve_to_the_end(tmp_path, SOMEWHERE + 'tiemout = "5s"\nmax_retries = 99\n')
    assert done.returncode == BAD_CONFIG
    assert all(key in complaint(done) for key in ("tiemout", "timeout", "max_retries"))
    assert not (tmp_path / "jobs.db").exists()


def test_a_file_that_is_no_configuration_is_named(tmp_path: Path) -> None:
    done = serve_to_the_end(tmp_path, "once upon a time")
    assert done.returncode == BAD_CONFIG
    assert "jobqueued.toml" in complaint(done)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    done = serve_to_the_end(tmp_path, SOMEWHERE.replace("jobs.db", "state/jobs.db"))
    assert done.returncode == IO_ERROR
    assert str(tmp_path / "state") in complaint(done)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    config = SOMEWHERE.replace('path = "{place}/jobs.db"', 'path = "/proc/jobqueued/jobs.db"')
    done = serve_to_the_end(tmp_path, config)
    assert done.returncode == IO_ERROR
    assert "/proc/jobqueued" in complaint(done)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = serve_to_the_end(tmp_path, SOMEWHERE.replace("unix:{place}/api.sock", address))
    assert done.returncode == IO_ERROR
    assert f"cannot listen on {address}: Address already in use" in complaint(done)


def test_a_file_in_the_place_of_the_socket_is_not_removed(tmp_path: Path) -> None:
    place = tmp_path / "api.sock"
    place.write_text("precious")
    done = serve_to_the_end(tmp_path, SOMEWHERE)
    assert done.returncode == IO_ERROR
    assert str(place) in complaint(done)
    assert place.read_text() == "precious"


def test_the_socket_of_a_dead_daemon_is_replaced(serve: Serve) -> None:
    serving = serve(TYPE)
    serving.kill()
    assert serving.socket_path.exists()
    serving.start()
    assert serving.finish("echo")["status"] == "completed"
    assert serving.stop() == 0
    assert not serving.socket_path.exists()
