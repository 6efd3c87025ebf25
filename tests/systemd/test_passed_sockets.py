"""Descriptors passed to a real process the way systemd does it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobqueued.systemd import passed_sockets

# Puts the descriptors where systemd would, then becomes the program and keeps its process id.
LAUNCHER = """
import os, sys
numbers, owner, program = sys.argv[1:]
given = [int(number) for number in numbers.split(",")]
for place, number in enumerate(given, start=3):
    os.dup2(number, place, inheritable=True)
os.environ["LISTEN_FDS"] = str(len(given))
os.environ["LISTEN_FDNAMES"] = ":".join(["jobqueued.socket"] * len(given))
os.environ["LISTEN_PID"] = owner or str(os.getpid())
os.execv(sys.executable, [sys.executable, "-c", program])
"""

PROGRAM = """
import json, os, subprocess, sys
from jobqueued.systemd import passed_sockets
passed = passed_sockets()
look = "import os; print([n for n in range(3, 8) if os.path.exists(f'/proc/self/fd/{n}')])"
child = subprocess.run(
    [sys.executable, "-c", look], close_fds=False, capture_output=True, text=True, check=True
)
print(json.dumps({
    "addresses": [one.getsockname() for one in passed],
    "descriptors": [one.fileno() for one in passed],
    "blocking": [one.getblocking() for one in passed],
    "left": [name for name in os.environ if name.startswith("LISTEN_")],
    "child": json.loads(child.stdout),
    "again": len(passed_sockets()),
}))
"""

ANSWER = """
from jobqueued.systemd import passed_sockets
(listener,) = passed_sockets()
listener.setblocking(True)
connection, _ = listener.accept()
connection.sendall(b"hello")
"""


def high(descriptor: int) -> int:
    """A copy out of the way of the numbers that systemd uses."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100)


def launch(program: str, descriptors: Sequence[int], owner: str = "") -> subprocess.Popen[str]:
    copies = [high(descriptor) for descriptor in descriptors]
    numbers = ",".join(map(str, copies))
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, numbers, owner, program],
        pass_fds=copies,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    for copy in copies:
        os.close(copy)
    return process


def report(descriptors: Sequence[int], owner: str = "") -> dict[str, Any]:
    with launch(PROGRAM, descriptors, owner) as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    answer: dict[str, Any] = json.loads(output)
    return answer


def unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_unix_and_tcp_sockets_arrive_in_order_and_no_child_sees_them(tmp_path: Path) -> None:
    with (
        unix_listener(tmp_path / "a.sock") as unix,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        seen = report([unix.fileno(), tcp.fileno()])
        assert seen["addresses"] == [unix.getsockname(), list(tcp.getsockname())]
    assert seen["descriptors"] == [3, 4]
    assert seen["blocking"] == [False, False]
    assert seen["left"] == []
    assert seen["child"] == []
    assert seen["again"] == 0


def test_a_connection_made_before_the_start_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with unix_listener(path) as unix, socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(30)
        caller.connect(str(path))
        with launch(ANSWER, [unix.fileno()]) as process:
            assert caller.recv(100) == b"hello"
            assert process.wait(timeout=30) == 0


def test_what_does_not_listen_is_left_out_and_hidden_from_children(tmp_path: Path) -> None:
    with (
        (tmp_path / "file").open("w") as file,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as silent,
        unix_listener(tmp_path / "a.sock") as unix,
    ):
        seen = report([file.fileno(), datagram.fileno(), silent.fileno(), unix.fileno()])
        assert seen["addresses"] == [unix.getsockname()]
    assert seen["descriptors"] == [6]
    assert seen["child"] == []


def test_sockets_for_another_process_are_not_ours(tmp_path: Path) -> None:
    with unix_listener(tmp_path / "a.sock") as unix:
        seen = report([unix.fileno()], owner="1")
    assert seen["addresses"] == []
    assert seen["left"] == []


@pytest.mark.parametrize("count", ["", "0", "-1", "many", "9" * 5000])
def test_a_count_that_makes_no_sense_means_none(count: str) -> None:
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count, "LISTEN_FDNAMES": "a:b"}
    assert passed_sockets(environment) == []
    assert environment == {}
