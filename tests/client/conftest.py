"""A server whose every answer is written by the test, byte by byte."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.client.address import Address


class Server:
    """Accepts one connection after another, keeps each request, sends the next answer."""

    def __init__(self, listener: socket.socket, address: Address) -> None:
        self.address = address
        self.requests: list[bytes] = []
        self.answers: list[bytes] = []
        self._listener = listener
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Stop; `shutdown` wakes the thread that waits in `accept`."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = _read_request(connection)
                if request:
                    self.requests.append(request)
                    connection.sendall(self.answers.pop(0))


def _read_request(connection: socket.socket) -> bytes:
    """Headers, and as much body as they announce; nothing when the client goes away."""
    request, missing = b"", 1
    while missing > 0 and (received := connection.recv(65536)):
        request += received
        head, ended, body = request.partition(b"\r\n\r\n")
        announced = re.search(rb"Content-Length: (\d+)", head)
        missing = (int(announced[1]) if announced else 0) - len(body) if ended else 1
    return request


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
