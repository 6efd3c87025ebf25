"""A daemon of its own for the tests of the API, and plain HTTP to talk to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
"""Seconds within which everything these tests wait for has happened."""
JSON = {"Content-Type": "application/json"}

CONFIG = """
[server]
listen = ["127.0.0.1:{port}", "unix:{place}/api.sock"]
max_body = "256KiB"
[store]
path = "{place}/jobs.db"
[queue]
max_depth = 200
max_payload = "1KiB"
max_batch = 5
[shutdown]
drain_timeout = "1s"
kill_timeout = "1s"
[defaults]
max_retries = 0
env = {{ GATE = "{place}/gate" }}

[types.echo]
command = ["cat"]
result = "stdout"
[types.fail]
command = ["sh", "-c", "echo it went wrong; exit 3"]
breaker = false
[types.picky]
command = ["grep", "good"]
breaker = false
[types.marked]
command = ["false"]
confirm_replay = true
breaker = false
[types.again]
command = ["false"]
max_retries = 5
backoff = {{ base = "1h", jitter = "0s" }}
[types.gate]
command = ["sh", "-c", "echo token $JOB_LEASE_TOKEN; read word < $GATE; echo $word"]
kill_grace = "100ms"
"""


class Reply(NamedTuple):
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def fields(self) -> list[str]:
        """The fields a problem document finds at fault."""
        return [fault["field"] for fault in self.document.get("errors", [])]


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


def until(happened: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is yes; what it was is handed back."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return answer


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Daemon:
    """`jobqueued serve` in a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port = free_port()
        self.socket_path = place / "api.sock"
        self.gate = place / "gate"
        os.mkfifo(self.gate)
        config = place / "jobqueued.toml"
        config.write_text(CONFIG.format(place=place, port=self.port))
        with (place / "serve.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jobqueued", "serve", "--config", str(config)],
                cwd=place,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(place)},
                stdout=log,
                stderr=log,
            )
        until(self._is_ready)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return self.ask("GET", "/readyz").status == 200
        except OSError:
            return False

    def log(self) -> str:
        return (self.place / "serve.log").read_text()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def reload(self) -> None:
        """Have the configuration read again."""
        before = self.log().count("configuration reloaded")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.log().count("configuration reloaded") > before)

    def connection(self, *, over_unix: bool = False) -> HTTPConnection:
        if over_unix:
            return UnixConnection(self.socket_path)
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = JSON,
        *,
        over_unix: bool = False,
    ) -> Reply:
        """One request on a connection of its own."""
        connection = self.connection(over_unix=over_unix)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def raw(self, *parts: bytes) -> bytes:
        """Send bytes as they are; all that comes back until the daemon hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            for part in parts:
                connection.sendall(part)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            return received

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, reply
        return reply.document

    def post(self, path: str, document: object = None, **headers: str) -> Reply:
        body = None if document is None else json.dumps(document).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, body, JSON | sent)

    def submit(self, kind: str, **fields: object) -> Any:
        """Submit a job; the job."""
        reply = self.post("/jobs", {"type": kind} | fields)
        assert reply.status == 201, reply
        return reply.document

    def finish(self, kind: str, **fields: object) -> Any:
        """Submit a job and wait for its end; the job."""
        job = self.submit(kind, **fields)
        return self.get(f"/jobs/{job['id']}?wait=20")

    def at_the_gate(self) -> Any:
        """Submit a job that runs until the gate opens; the job once it runs."""
        job = self.submit("gate")
        return until(lambda: self._if_processing(job["id"]))

    def _if_processing(self, job_id: str) -> Any:
        job = self.get(f"/jobs/{job_id}")
        return job if job["status"] == "processing" else None

    def open_gate(self, word: str = "go") -> None:
        self.gate.write_text(f"{word}\n")

    def stored(self) -> int:
        """How many jobs there are."""
        counts: dict[str, int] = self.get("/stats")["counts"]
        return sum(counts.values())
