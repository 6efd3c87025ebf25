"""One daemon for the workers of all tests, and one for those that end it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jobqueued.client import Client
from tests.worker.support import RemoteServing


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServing]:
    serving = RemoteServing(tmp_path_factory.mktemp("remote"))
    yield serving
    assert serving.stop() == 0


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[RemoteServing]:
    serving = RemoteServing(tmp_path)
    yield serving
    if serving.process.poll() is None:
        serving.stop()


@pytest.fixture
async def client(daemon: RemoteServing) -> AsyncIterator[Client]:
    async with Client(daemon.url) as client:
        yield client
