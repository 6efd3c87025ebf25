from __future__ import annotations

from pathlib import Path

import pytest

from jobqueued.config import default_socket_path, default_store_path, find_config, places
from jobqueued.model.errors import ConfigError


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"STATE_DIRECTORY": "/state", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/state/jobs.db"),
        ({"STATE_DIRECTORY": "/first:/second", "HOME": "/h"}, "/first/jobs.db"),
        ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "/x"}, "/x/jobqueued/jobs.db"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/jobqueued/jobs.db"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/jobqueued/jobs.db"),
        ({"HOME": "/h"}, "/h/.local/state/jobqueued/jobs.db"),
    ],
)
def test_the_database(environment: dict[str, str], path: str) -> None:
    assert default_store_path(environment) == Path(path)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"RUNTIME_DIRECTORY": "/run/q", "XDG_RUNTIME_DIR": "/x"}, "/run/q/jobqueued.sock"),
        ({"RUNTIME_DIRECTORY": "/run/a:/run/b"}, "/run/a/jobqueued.sock"),
        ({"XDG_RUNTIME_DIR": "/x"}, "/x/jobqueued.sock"),
        ({"XDG_RUNTIME_DIR": "relative"}, "/data/jobqueued.sock"),
        ({"RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": ""}, "/data/jobqueued.sock"),
        ({}, "/data/jobqueued.sock"),
    ],
)
def test_the_socket(environment: dict[str, str], path: str) -> None:
    assert default_socket_path(Path("/data/jobs.db"), environment) == Path(path)


def test_a_user_without_a_home_is_told_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"set store\.path"):
        default_store_path({"HOME": "nowhere"})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a system configuration that can be made."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setattr(places, "SYSTEM_CONFIG", tmp_path / "etc.toml")
    return directory


def test_the_option_comes_first(here: Path) -> None:
    (here / "jobqueued.toml").touch()
    environment = {"JOBQUEUED_CONFIG": "/from/environment"}
    assert find_config(Path("/from/option"), environment) == Path("/from/option")


def test_the_environment_comes_second(here: Path) -> None:
    (here / "jobqueued.toml").touch()
    assert find_config(None, {"JOBQUEUED_CONFIG": "/there"}) == Path("/there")


def test_the_working_directory_comes_third(here: Path) -> None:
    (here / "jobqueued.toml").touch()
    (here.parent / "etc.toml").touch()
    assert find_config(None, {"JOBQUEUED_CONFIG": ""}) == Path("jobqueued.toml")


def test_the_system_comes_last(here: Path) -> None:
    (here.parent / "etc.toml").touch()
    assert find_config(None, {}) == here.parent / "etc.toml"


@pytest.mark.usefixtures("here")
def test_without_any_file_the_message_says_where_and_what() -> None:
    with pytest.raises(ConfigError) as caught:
        find_config(None, {})
    for word in ("./jobqueued.toml", "--config", "$JOBQUEUED_CONFIG", "jobqueued init"):
        assert word in str(caught.value)
    assert caught.value.exit_code == 78
