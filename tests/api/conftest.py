from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.config import Config, load_config
from tests.api.support import Daemon

CONFIG = """
[server]
listen = ["127.0.0.1:0", "unix:api.sock"]
max_body = "256KiB"
[store]
path = "jobs.db"
[queue]
max_payload = "1KiB"
max_batch = 5
[types.echo]
command = ["/bin/cat"]
[types.resize_image]
command = ["/bin/true"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "jobqueued.toml"
    path.write_text(CONFIG)
    return load_config(path)


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests that leave it running; it must never answer with a 500."""
    running = Daemon(tmp_path_factory.mktemp("daemon"))
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log()


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon for one test that stops it."""
    running = Daemon(tmp_path)
    yield running
    if running.process.poll() is None:
        running.stop()
