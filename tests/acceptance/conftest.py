"""Daemons for the tests: each with the configuration the test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.support import GATED, Serving

Serve = Callable[[str], Serving]


@pytest.fixture
def prepare(tmp_path: Path) -> Iterator[Serve]:
    """A daemon that is configured, not yet started."""
    made: list[Serving] = []

    def make(config: str) -> Serving:
        made.append(Serving(tmp_path, config))
        return made[-1]

    yield make
    for serving in made:
        serving.clean_up()


@pytest.fixture
def serve(prepare: Serve) -> Serve:
    """A daemon that takes jobs."""
    return lambda config: prepare(config).start()


EVERYDAY = (
    """
[pools.default]
workers = 8
max_share = 1.0
[defaults]
max_retries = 0
kill_grace = "200ms"
env = { PYTHONPATH = "{root}" }

[types.echo]
command = ["cat"]
result = "stdout"
[types.greet]
command = ["sh", "-c", "echo hello, you"]
result = "stdout"
[types.fail]
command = ["sh", "-c", "echo it went wrong >&2; exit 3"]
breaker = false
max_retries = 2
backoff = { base = "100ms", factor = 3.0, jitter = "0s" }
[types.later]
command = ["sh", "-c", 'test "$JOB_ATTEMPT" -gt 1']
max_retries = 1
backoff = { base = "1h", jitter = "0s" }
[types.hopeless]
command = ["sh", "-c", "exit 64"]
breaker = false
max_retries = 5
[types.endless]
command = ["sh", "-c", "echo begun; sleep 600 & wait"]
timeout = "300ms"
breaker = false
[types.worker]
command = ["{python}", "-c", "sum(range(20_000_000)); bytearray(50_000_000)"]
[types.report]
command = ["sh", "-c", "{python} -m jobqueued progress 40 resizing; . ./gate.sh"]
cwd = "{place}"
"""
    + GATED
)


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One daemon for all tests that leave it as it was."""
    serving = Serving(tmp_path_factory.mktemp("daemon"), EVERYDAY)
    yield serving.start()
    assert serving.stop() == 0
    assert serving.processes() == set()
