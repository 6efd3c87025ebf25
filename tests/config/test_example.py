"""The example runs as it is, shows every setting, and tells the truth about the defaults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobqueued.config import SETTINGS, Config, Setting, load_config, warnings
from tests.config.support import command_of

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
ENVIRONMENT = {"STATE_DIRECTORY": "/state"}


@pytest.fixture(scope="module")
def example() -> Config:
    return load_config(EXAMPLE, ENVIRONMENT)


@pytest.fixture(scope="module")
def uncommented() -> str:
    """The example with every `#setting = value` and every `#[section]` in force."""
    return re.sub(r"^#(?=\w+ = |\[)", "", EXAMPLE.read_text(), flags=re.MULTILINE)


def test_it_loads_without_a_warning(example: Config) -> None:
    assert list(example.types) == ["hello", "slow", "flaky", "broken"]
    assert warnings(example) == []


def test_it_sets_nothing_but_types(example: Config, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    empty = load_config(tmp_path / "empty.toml", ENVIRONMENT)
    bare = msgspec.structs.replace(example, types={}, files=())
    assert bare == msgspec.structs.replace(empty, files=())


def values_of(text: str, setting: Setting) -> list[Any]:
    """What the text sets a setting to, in whichever section."""
    found = []
    for key in setting.keys:
        tables = [tomllib.loads(text)]
        for part in key.split("."):
            branches = [table.values() if part == "NAME" else [table.get(part)] for table in tables]
            tables = [table for branch in branches for table in branch if table is not None]
        found += tables
    return found


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.keys[0])
def test_it_shows_every_setting_and_its_default(uncommented: str, setting: Setting) -> None:
    values = values_of(uncommented, setting)
    assert values
    if setting.default is not None:
        assert values[0] == setting.default


def test_what_is_commented_out_is_valid(uncommented: str, tmp_path: Path) -> None:
    for name in ("notify.secret", "callback"):
        (tmp_path / name).write_text("a secret for the example\n")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "all.toml").write_text(uncommented)
    environment = ENVIRONMENT | {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    types = load_config(tmp_path / "all.toml", environment).types
    assert types["hello"].max_running == 4
    kinds = {name: job_type.handler.kind for name, job_type in types.items()}
    assert set(kinds.values()) == {"command", "http", "python", "remote"}
    assert [kinds[name] for name in ("notify", "callback", "score", "transcode")] == [
        "http",
        "http",
        "python",
        "remote",
    ]


def run(example: Config, name: str, payload: object = None, **environment: str) -> Any:
    return subprocess.run(
        command_of(example, name).argv,
        input=json.dumps(payload).encode(),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(("payload", "name"), [({"name": "Zoë"}, "Zoë"), ({}, "world")])
def test_hello_greets(example: Config, payload: object, name: str) -> None:
    done = run(example, "hello", payload)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"greeting": f"Hello, {name}!"}
    assert command_of(example, "hello").result_from_stdout


@pytest.mark.parametrize(("attempt", "code"), [(1, 1), (2, 1), (3, 0), (4, 0)])
def test_flaky_works_the_third_time(example: Config, attempt: int, code: int) -> None:
    assert run(example, "flaky", JOB_ATTEMPT=str(attempt)).returncode == code
    assert example.types["flaky"].max_retries >= 2


def test_broken_always_fails(example: Config) -> None:
    assert run(example, "broken").returncode == 1
    assert example.types["broken"].max_retries == 1


def test_slow_tells_its_progress(example: Config, tmp_path: Path) -> None:
    """With a `sleep` that does not sleep and a `jobqueued` that writes down what it was told."""
    for name, script in (("sleep", "exit 0"), ("jobqueued", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = run(example, "slow", PATH=f"{tmp_path}:{os.environ['PATH']}")
    lines = done.stdout.decode().splitlines()
    assert lines == [f"progress {step * 10} step {step} of 10" for step in range(1, 11)]
