"""The check-up of a whole installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import PATIENCE, Done, Serving, environment


def levels(done: Done) -> dict[str, str]:
    return {each["subject"]: each["level"] for each in json.loads(done.stdout)["findings"]}


def test_a_healthy_daemon_passes(daemon: Serving) -> None:
    done = daemon.run("doctor", "--json")
    assert done.returncode == 0
    found = levels(done)
    assert set(found.values()) == {"ok"}
    assert {"sqlite", "configuration", "file system", "database", "daemon", "clock"} <= set(found)


def test_a_daemon_that_holds_the_database_but_does_not_answer_is_a_fault(daemon: Serving) -> None:
    done = daemon.run("doctor", "--url", "unix:/nowhere")
    assert done.returncode == 1
    assert f"fault    daemon: process {daemon.process.pid} holds the database" in done.stdout


def test_before_the_first_start_it_says_what_to_do(run: Callable[..., Done]) -> None:
    done = run("doctor", JOBQUEUED_URL="unix:/nowhere")
    assert done.returncode == 0
    assert "warning  configuration: there is none" in done.stdout
    assert "fix: write one: `jobqueued init`" in done.stdout
    assert "fix: start it: `jobqueued serve`" in done.stdout


def test_a_faulty_configuration_exits_1(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text("[queue]\nmax_dept = 3\n")
    done = run("doctor", "--config", "jobqueued.toml", "--json", JOBQUEUED_URL="unix:/nowhere")
    assert done.returncode == 1
    assert levels(done)["configuration"] == "fault"


def test_a_faulty_configuration_that_was_named_leads_to_no_other_daemon(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text("[queue]\nmax_dept = 3\n")
    done = run("doctor", "--config", "own.toml")
    assert "daemon: not asked, as a faulty configuration does not say where" in done.stdout
    (tmp_path / "own.toml").rename(tmp_path / "jobqueued.toml")
    assert "daemon: no daemon answers (" in run("doctor").stdout


def test_a_read_only_mount_is_told_from_a_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text(f'[store]\npath = "{tmp_path}/disk/jobs.db"\n')
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o ro tmpfs "{tmp_path}/disk" || exit 77; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"]).returncode != 0:
        pytest.skip("cannot mount a file system of its own here")
    done = subprocess.run(
        [*command, sys.executable, "-m", "jobqueued", "doctor"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1, done.stderr
    assert f"fault    directory: {tmp_path}/disk is on a read-only mount" in done.stdout
    assert "ReadWritePaths=" in done.stdout


def test_a_missing_command_is_a_warning(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text('[types.x]\ncommand = ["not-there-at-all"]\n')
    done = run("doctor", JOBQUEUED_URL="unix:/nowhere")
    assert done.returncode == 0
    assert "warning  configuration: types.x.command" in done.stdout
