"""The real command in a process of its own, with and without a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.support import Done, Serving, run_command


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    """Run `jobqueued ARGUMENTS` in an empty directory, where no daemon is."""
    return partial(run_command, tmp_path)


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One daemon for all tests that leave it running."""
    serving = Serving(tmp_path_factory.mktemp("daemon"))
    yield serving
    assert serving.stop() == 0


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[Serving]:
    """A daemon for one test that stops or restarts it."""
    serving = Serving(tmp_path)
    yield serving
    if serving.process.poll() is None:
        serving.stop()
