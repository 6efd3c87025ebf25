"""A server whose every answer is written by the test, byte by byte."""

from __future__ import annotations

import json
import re
import socket
import threading
from typing import Any

from jobqueued.client.address import Address

JOB = {
    "id": "0190-job", "type": "hello", "status": "pending", "payload": {}, "priority": 5,
    "max_retries": 5, "attempt": 0, "failures": 0, "created_at": "2026-01-31T12:00:00.000Z",
    "run_at": "2026-01-31T12:00:00.000Z",
}  # fmt: skip


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


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def job_answer(**fields: Any) -> bytes:
    """A job, submitted."""
    return answer(json.dumps(JOB | fields).encode(), "201 Created")


def batch_answer(*ids: str) -> bytes:
    """A batch, submitted."""
    jobs = [JOB | {"id": job_id} for job_id in ids]
    return answer(json.dumps({"batch_id": "b", "jobs": jobs}).encode(), "201 Created")


def problem_answer(status: str, code: str, *headers: str, **more: Any) -> bytes:
    """A refusal."""
    body = {"detail": f"refused: {code}", "code": code, **more}
    return answer(json.dumps(body).encode(), status, *headers)


def bodies(requests: list[bytes]) -> list[Any]:
    """What was sent, request by request."""
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]


def targets(requests: list[bytes]) -> list[str]:
    """The first line of each request."""
    return [re.sub(r" HTTP/1.1$", "", one.split(b"\r\n")[0].decode()) for one in requests]
