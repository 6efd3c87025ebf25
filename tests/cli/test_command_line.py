"""The command line where no daemon is needed: help, usage, configuration, addresses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobqueued import __version__
from jobqueued.cli.main import COMMANDS
from jobqueued.model.job import Status
from tests.cli.support import Done, environment

Run = Callable[..., Done]

BROKEN = '[server]\nlisten = ["nowhere"]\n[queues]\n[types.x]\ncommand = ["true"]\ntimeuot = "5s"\n'


def test_version(run: Run) -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"jobqueued {__version__}\n")


def test_help_names_every_command(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    listed = done.stdout.split("Commands:\n")[1]
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("serve", ["SIGTERM", "SIGHUP", "$JOBQUEUED_CONFIG", "/etc/jobqueued/config.toml"]),
        ("list", [*Status, "2026-01-31T12:00:00Z"]),
        ("submit", ["90s, 5m, 24h", "2026-01-31T12:00:00Z"]),
        ("wait", ["90s, 5m, 24h"]),
        ("logs", ["latest attempt", "every further attempt"]),
        ("import", ['{"type": "hello"', "queue.idempotency_window", "rejected"]),
        ("export", ["newest comes first", "one a line", "idempotency_key", "take the key out"]),
        ("cancel", ["counted first", "--running"]),
        ("backup", ["To restore", "-wal", "run again"]),
    ],
)
def test_help_tells_what_one_has_to_know(run: Run, command: str, told: list[str]) -> None:
    shown = " ".join(run(command, "--help").stdout.split())
    assert [word for word in told if word not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_fits(run: Run, command: str) -> None:
    done = run(command, "-h")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: jobqueued {command} [OPTIONS]")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["stauts"], "did you mean 'status'?"),
        (["show"], "Missing argument 'ID'"),
        (["show", ""], "a job id cannot be empty"),
        (["logs", ""], "a job id cannot be empty"),
        (["wait", ""], "a job id cannot be empty"),
        (["cancel", "a", ""], "a job id cannot be empty"),
        (["submit", "hello", "{'a': 1}"], "the payload is not JSON"),
        (["submit", "hello", "--priority", "10"], "10 is not in the range 0<=x<=9"),
        (["submit", "hello", "--delay", "soon"], "'soon' is not a duration"),
        (["submit", "hello", "--wait=soon"], "'soon' is not a duration"),
        (["list", "--status", "lost"], "'lost' is not one of 'scheduled', 'pending'"),
        (["list", "--all", "--limit", "3"], "exclude each other"),
        (["logs", "x", "--follow", "--json"], "does not go with --json"),
        (["progress", "101"], "101.0 is not in the range"),
        (["progress", "10"], "there is no $JOB_LEASE_TOKEN"),
        (["status", "--url", "localhost:1"], "'localhost:1' is not an address"),
        (["--url", "localhost:1", "list"], "'localhost:1' is not an address"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(run: Run, arguments: list[str], told: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["show", "x"],
        ["list"],
        ["submit", "hello"],
        ["wait", "x"],
        ["logs", "x"],
        ["cancel", "x"],
        ["cancel", "--type", "x", "--yes"],
        ["export"],
        ["run", "x"],
    ],
)
def test_without_a_daemon_or_a_file_the_exit_is_69(run: Run, arguments: list[str]) -> None:
    done = run(*arguments, JOBQUEUED_URL="unix:/nowhere/jobqueued.sock")
    assert done.returncode == 69
    expected = "error: no daemon answers (unix:/nowhere/jobqueued.sock: No such file or directory)"
    assert done.stderr.startswith(expected)
    assert "start one with `jobqueued serve`" in done.stderr


def test_progress_without_a_daemon_exits_69(run: Run) -> None:
    done = run("progress", "10", JOB_LEASE_TOKEN="x", JOBQUEUED_URL="unix:/nowhere")
    assert done.returncode == 69


def test_the_socket_comes_before_the_loopback_port(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[server]\nlisten = ["127.0.0.1:1", "unix:/nowhere/own.sock"]\n')
    done = run("list", "--config", "own.toml")
    assert "(unix:/nowhere/own.sock: No such" in done.stderr
    assert "; http://127.0.0.1:1: Connection refused)" in done.stderr


def test_a_local_configuration_says_where_the_daemon_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text('[server]\nlisten = ["unix:/nowhere/own.sock"]\n')
    assert "(unix:/nowhere/own.sock: No such file" in run("list").stderr


def test_the_default_socket_is_in_the_runtime_directory(run: Run, tmp_path: Path) -> None:
    done = run("list", XDG_RUNTIME_DIR=str(tmp_path))
    assert f"(unix:{tmp_path}/jobqueued.sock: No such file" in done.stderr


@pytest.mark.parametrize("arguments", [["list"], ["submit", "x"], ["cancel", "x"], ["wait", "x"]])
def test_a_faulty_configuration_leads_to_no_other_daemon(
    run: Run, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "jobqueued.toml").write_text(BROKEN)
    done = run(*arguments)
    assert done.returncode == 78
    assert "timeuot" in done.stderr
    assert "name the daemon with --url" in done.stderr
    assert run(*arguments, "--url", "unix:/nowhere").returncode == 69


@pytest.mark.parametrize("command", ["list", "status"])
@pytest.mark.parametrize("text", [BROKEN, None])
def test_a_named_configuration_is_the_one_that_counts(
    run: Run, tmp_path: Path, command: str, text: str | None
) -> None:
    own = tmp_path / "own.toml"
    if text is not None:
        own.write_text(text)
    for done in (run(command, "--config", "own.toml"), run(command, JOBQUEUED_CONFIG=str(own))):
        assert done.returncode == 78
        assert "own.toml: " in done.stderr


def test_status_looks_past_a_file_found_by_itself_and_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text(BROKEN)
    done = run("status", XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 78
    assert done.stderr.startswith("note: jobqueued.toml: ")
    assert "looking in the default places meanwhile" in done.stderr
    assert f"no daemon answers (unix:{tmp_path}/jobqueued.sock: No such file" in done.stderr


def test_check_lists_every_fault(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text(BROKEN)
    done = run("check")
    assert done.returncode == 78
    assert done.stderr.count("error: ") == 3
    for word in ("listen", "queues", '(did you mean "timeout"?)'):
        assert word in done.stderr
    document = json.loads(run("check", "--json").stdout)
    assert document["valid"] is False
    assert len(document["faults"]) == 3


def test_check_passes_a_valid_file_and_shows_warnings(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[types.x]\ncommand = ["not-there-at-all"]\n')
    done = run("check", JOBQUEUED_CONFIG=str(config))
    assert done.returncode == 0
    assert done.stdout == f"configuration is valid: {config}: 1 type, 1 pool\n"
    assert f"warning: {config}: types.x.command" in done.stderr
    assert run("check", str(config)).stdout == done.stdout
    assert run("check", str(config), "--config", "own.toml").returncode == 2


def test_check_warns_beside_faults_and_names_the_file_of_each(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text("[queue]\nmax_dept = 3\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "x.toml").write_text('[types.x]\ncommand = ["not-there-at-all"]\n')
    done = run("check")
    assert done.returncode == 78
    assert "error: jobqueued.toml: queue.max_dept" in done.stderr
    assert "warning: conf.d/x.toml: types.x.command" in done.stderr
    assert done.stdout == ""
    document = json.loads(run("check", "--json").stdout)
    assert document["files"] == ["jobqueued.toml", "conf.d/x.toml"]
    assert len(document["faults"]) == len(document["warnings"]) == 1


def test_check_names_every_file_of_a_valid_configuration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text("")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "x.toml").write_text('[types.x]\ncommand = ["true"]\n')
    told = "configuration is valid: jobqueued.toml, conf.d/x.toml: 1 type, 1 pool\n"
    assert run("check").stdout == told


@pytest.mark.parametrize("text", ["[types.x]\n", "[types.x]\ncommand = 3\n", "types = 3\n", "=\n"])
def test_check_does_not_guess_where_too_little_is_valid(
    run: Run, tmp_path: Path, text: str
) -> None:
    (tmp_path / "jobqueued.toml").write_text(text)
    done = run("check")
    assert done.returncode == 78
    assert "Traceback" not in done.stderr


def test_check_without_a_file_says_how_to_get_one(run: Run) -> None:
    done = run("check")
    assert done.returncode == 78
    assert "jobqueued init" in done.stderr


def test_serve_stops_at_an_invalid_configuration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobqueued.toml").write_text(BROKEN)
    done = run("serve")
    assert done.returncode == 78
    assert "timeuot" in done.stderr


def test_init_writes_what_check_accepts_and_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    done = run("init")
    written = tmp_path / "jobqueued.toml"
    assert done.returncode == 0
    assert "jobqueued.toml" in done.stdout
    assert run("check").returncode == 0
    written.write_text("mine")
    refused = run("init")
    assert refused.returncode == 2
    assert "--force overwrites it" in refused.stderr
    assert written.read_text() == "mine"
    assert run("init", "--force").returncode == 0
    assert "[types." in written.read_text()


def test_init_where_nothing_can_be_written_is_an_io_error(run: Run) -> None:
    done = run("init", "missing/jobqueued.toml")
    assert done.returncode == 74
    assert done.stderr == "error: missing/jobqueued.toml: No such file or directory\n"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "jobqueued", "check", "--json"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "silent.sock"))
        listener.listen()
        command = [
            sys.executable,
            "-m",
            "jobqueued",
            "list",
            "--url",
            f"unix:{tmp_path}/silent.sock",
        ]
        process = subprocess.Popen(
            command, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            process.send_signal(2)
            _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors.strip() == ""


def test_progress_imports_next_to_nothing(run: Run) -> None:
    done = run(
        "progress", "5", JOB_LEASE_TOKEN="x", JOBQUEUED_URL="unix:/x", PYTHONPROFILEIMPORTTIME="1"
    )
    assert done.returncode == 69
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "jobqueued.client.daemon" in imported
    assert not imported & {"asyncio", "aiohttp", "rich", "uvloop", "msgspec", "sqlite3", "tomllib"}
