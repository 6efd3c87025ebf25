"""Loading a configuration from text, in a directory and an environment of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobqueued.config import Config, load_config
from jobqueued.model.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Config]:
    def load_text(text: str) -> Config:
        file = tmp_path / "jobqueued.toml"
        file.write_text(text)
        return load_config(file, {"STATE_DIRECTORY": "/state", "RUNTIME_DIRECTORY": "/runtime"})

    return load_text


@pytest.fixture
def faults(load: Callable[[str], Config], tmp_path: Path) -> Callable[[str], list[str]]:
    """The faults of a text, without the name of the file before each."""

    def faults_of(text: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text)
        lines = str(caught.value).split("\n")
        prefix = f"{tmp_path / 'jobqueued.toml'}: "
        assert all(line.startswith(prefix) for line in lines)
        return [line.removeprefix(prefix) for line in lines]

    return faults_of
