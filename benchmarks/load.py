"""Load for an HTTP server, from a process of its own: every connection asks again once answered.

As a program it reads a Plan from standard input and prints what came of it, both as JSON.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support import PATIENCE, cpu_seconds, percentile

CHUNK = 256 * 1024
_LENGTH = b"Content-Length: "


class Plan(msgspec.Struct, kw_only=True):
    """Which server to ask what, over how many connections, for how long."""

    port: int
    pid: int
    path: str
    body: str
    connections: int
    seconds: float
    warm_up: float = 0.5

    def request(self) -> bytes:
        """The bytes of every request."""
        body = self.body.encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Measured(msgspec.Struct, kw_only=True):
    """Answers a second, how long they took, and the share of a core each side used."""

    rate: float
    p50_ms: float
    p99_ms: float
    server_cpu: float
    load_cpu: float


class Client:
    """One connection with a request under way."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.receive = self.socket.recv
        self.send = self.socket.sendall
        self.received = b""
        self.began = time.perf_counter_ns()
        self.send(request)


class Clients:
    """All connections, asked in turn as their answers come."""

    def __init__(self, port: int, request: bytes, connections: int) -> None:
        self._request = request
        self._poll = select.epoll()
        self._by_number: dict[int, Client] = {}
        for _ in range(connections):
            client = Client(port, request)
            self._by_number[client.socket.fileno()] = client
            self._poll.register(client.socket.fileno(), select.EPOLLIN)

    def ask_for(self, seconds: float) -> list[int]:
        """Keep asking; how long every answer took, in nanoseconds."""
        took: list[int] = []
        now, poll = time.perf_counter_ns, self._poll.poll
        by_number, request = self._by_number, self._request
        end = now() + int(seconds * 1e9)
        while now() < end:
            for number, _ in poll(PATIENCE):
                client = by_number[number]
                answer = client.received + client.receive(CHUNK)
                if is_whole(answer):
                    moment = now()
                    took.append(moment - client.began)
                    client.received = b""
                    client.began = moment
                    client.send(request)
                else:
                    client.received = answer
        return took


def is_whole(answer: bytes) -> bool:
    """Whether all of an answer has come; one that is not a success ends the benchmark."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        if not answer:
            raise ConnectionError("the server hung up")
        return False
    if answer[9:10] != b"2":
        raise RuntimeError(f"the server refused: {answer.decode(errors='replace')}")
    place = answer.find(_LENGTH) + len(_LENGTH)
    return len(answer) == end + 4 + int(answer[place : answer.find(b"\r", place)])


def measure(plan: Plan) -> Measured:
    """Drive the server as planned, in this process."""
    clients = Clients(plan.port, plan.request(), plan.connections)
    clients.ask_for(plan.warm_up)
    server, own, began = cpu_seconds(plan.pid), time.process_time(), time.perf_counter()
    took = clients.ask_for(plan.seconds)
    elapsed = time.perf_counter() - began
    return Measured(
        rate=len(took) / elapsed,
        p50_ms=percentile(took, 50) / 1e6,
        p99_ms=percentile(took, 99) / 1e6,
        server_cpu=(cpu_seconds(plan.pid) - server) / elapsed,
        load_cpu=(time.process_time() - own) / elapsed,
    )


def drive(plan: Plan) -> Measured:
    """Drive the server as planned, from another process."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=msgspec.json.encode(plan),
        capture_output=True,
        timeout=PATIENCE + plan.seconds,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode())
    return msgspec.json.decode(done.stdout, type=Measured)


def main() -> None:
    """One plan in, one measurement out."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(measure(plan)))


if __name__ == "__main__":
    main()
