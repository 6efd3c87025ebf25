"""Servers to talk to: one whose answers a test writes, one that says nothing, a daemon."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.client.address import Address
from tests.client.support import Server
from tests.worker.support import RemoteServing


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    if request.param == "unix":
        path = str(tmp_path / "server.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        address = Address(path)
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        address = Address(None, *listener.getsockname())
    running = Server(listener, address)
    yield running
    running.close()


@pytest.fixture
def silent_address(tmp_path: Path) -> Iterator[Address]:
    """A daemon that accepts and then says nothing."""
    path = str(tmp_path / "silent.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield Address(path)


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServing]:
    """One daemon for all tests that leave it running."""
    serving = RemoteServing(tmp_path_factory.mktemp("library"))
    yield serving
    assert serving.stop() == 0
