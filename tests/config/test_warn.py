from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobqueued.config import Config, examine_config, warnings

Load = Callable[[str], Config]

OK = "[types.ok]\ncommand = ['sh']\n"
MYSELF = pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("", "types: no job type is configured, so every submission is refused"),
        (
            OK + "[queue]\nmax_payload = '2MiB'\n[server]\nmax_body = '1MiB'",
            "queue.max_payload: 2MiB is never reached, because server.max_body is 1MiB",
        ),
        (OK + "[store]\npath = '/'", "store.path: / is a directory, not a database file"),
        (OK + "[pools.heavy]", "pools.heavy: no job type uses this pool"),
        (
            "[types.x]\ncommand = ['no-such-program']",
            'types.x.command: "no-such-program" is not there or not executable',
        ),
        (
            "[types.'a.b']\ncommand = ['/no/such/program']",
            'types."a.b".command: "/no/such/program" is not there or not executable',
        ),
        (OK + "cwd = '/no/such'", 'types.ok.cwd: "/no/such" is not a directory'),
        (
            OK + "user = 'no-such-user'",
            'types.ok.user: there is no user "no-such-user" on this machine',
        ),
        (
            OK + "max_running = 2\nmax_running_per_key = 3",
            "types.ok.max_running_per_key: it is never reached, because at most 2 jobs of the type "
            "run at once",
        ),
        (
            OK + "max_running = 11",
            "types.ok.max_running: it is never reached, because pool default has 10 workers",
        ),
        (
            OK + "backoff.base = '2h'",
            "types.ok.backoff.base: 2h is more than backoff.max, 1h, which holds",
        ),
        (
            "[types.x]\nhttp.url = 'http://example.com/'",
            "types.x.http.url: what is sent can be read and changed on its way: use https",
        ),
        (
            "[types.x]\nhttp.url = 'HTTP://10.0.0.1:9000/'",
            "types.x.http.url: what is sent can be read and changed on its way: use https",
        ),
        (
            "[types.x.http]\nurl = 'https://example.com/'\nca_file = '/no/such.pem'",
            'types.x.http.ca_file: "/no/such.pem" cannot be read: No such file or directory',
        ),
        (
            "[types.x.http]\nurl = 'https://example.com/'\nca_file = '/dev/null'",
            'types.x.http.ca_file: "/dev/null" holds no certificates (PEM)',
        ),
        (
            "[types.x]\npython = 'a:b'\npython_path = ['/', '/no/such']",
            'types.x.python_path[1]: "/no/such" is not a directory',
        ),
        (
            "[types.x]\npython = 'a:b'\ninterpreter = 'no-such-python'",
            'types.x.interpreter: "no-such-python" is not there or not executable',
        ),
        (
            "[types.x]\npython = 'a:b'\ninterpreter = '/no/such/python'",
            'types.x.interpreter: "/no/such/python" is not there or not executable',
        ),
        (
            "[types.x]\npython = 'a:b'\ncwd = '/no/such'",
            'types.x.cwd: "/no/such" is not a directory',
        ),
        (
            "[types.x]\npython = 'a:b'\nuser = 'no-such-user'",
            'types.x.user: there is no user "no-such-user" on this machine',
        ),
    ],
)
def test_a_warning(load: Load, text: str, warning: str) -> None:
    assert warnings(load(text)) == [warning]


def test_faults_and_warnings_are_told_together(tmp_path: Path) -> None:
    file = tmp_path / "jobqueued.toml"
    other = "[types.b]\ncommand = ['sh']\nmax_running = 11\n"
    file.write_text(f"{OK}pool = 'heavy'\nmax_running_per_key = 3\n{other}")
    found = examine_config(file, {"STATE_DIRECTORY": "/state"})
    assert [line.partition(": ")[2] for line in found.faults] == [
        'types.ok.pool: there is no pool "heavy": configured are "default"'
    ]
    assert "types.b.max_running: it is never reached" in found.warnings[0]


def test_nothing_to_warn_about(load: Load) -> None:
    text = f"[pools.heavy]\n{OK}cwd = '/'\npool = 'heavy'\nuser = '{MYSELF}'"
    assert warnings(load(text)) == []


@pytest.mark.parametrize(
    "lines",
    [
        "http.url = 'https://example.com/'",
        "http.url = 'http://localhost:9000/'",
        "http.url = 'http://127.0.0.1:9000/'",
        "http.url = 'http://[::1]:9000/'",
        "http = { url_from = 'payload.url', allowed_hosts = ['example.com'] }",
        f"python = 'a:b'\ninterpreter = '{sys.executable}'\npython_path = ['/']",
        "remote = true",
    ],
)
def test_nothing_to_warn_about_in_a_handler(load: Load, lines: str) -> None:
    assert warnings(load(f"[types.x]\n{lines}")) == []


def test_authorities_without_https(load: Load) -> None:
    text = "[types.x.http]\nurl = 'http://localhost/'\nca_file = '/dev/null'"
    assert warnings(load(text)) == [
        "types.x.http.ca_file: is never used, because url does not start with https",
        'types.x.http.ca_file: "/dev/null" holds no certificates (PEM)',
    ]


@pytest.mark.parametrize(("length", "count"), [(23, 1), (24, 0)])
def test_short_secrets(load: Load, tmp_path: Path, length: int, count: int) -> None:
    (tmp_path / "a.secret").write_text("x" * length)
    (tmp_path / "a.secret").chmod(0o600)
    text = "[types.x.http]\nurl = 'https://example.com/'\nsecret_file = 'a.secret'"
    found = warnings(load(text))
    assert len(found) == count
    assert all("a secret of fewer than 24 bytes can be guessed" in each for each in found)


def test_a_program_must_be_executable(load: Load, tmp_path: Path) -> None:
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\n")
    config = load("[types.x]\ncommand = ['./run']")
    assert warnings(config) == [f'types.x.command: "{program}" is not there or not executable']
    program.chmod(0o755)
    assert warnings(config) == []


def test_the_path_of_a_type_is_searched(load: Load, tmp_path: Path) -> None:
    (tmp_path / "only-here").write_text("#!/bin/sh\n")
    (tmp_path / "only-here").chmod(0o755)
    text = f"[types.x]\ncommand = ['only-here']\nenv.PATH = '{tmp_path}'"
    assert warnings(load(text)) == []


def test_only_root_runs_commands_as_someone_else(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert warnings(load(OK + "user = 'root'")) == [
        'types.ok.user: only a daemon that runs as root can run jobs as "root"'
    ]
