"""The check-up of a whole installation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.support import Done, Serving


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


def test_a_missing_command_is_a_warning(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text('[types.x]\ncommand = ["not-there-at-all"]\n')
    done = run("doctor", JOBQUEUED_URL="unix:/nowhere")
    assert done.returncode == 0
    assert "warning  configuration: types.x.command" in done.stdout
