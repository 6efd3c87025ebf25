"""What systemd hears of the daemon, from its start to its end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving
from tests.api.support import PATIENCE

WATCHDOG_SECONDS = 0.4


class Listener:
    """The manager's end of the notify socket."""

    def __init__(self, bound: socket.socket) -> None:
        self._bound = bound
        self.heard: list[str] = []

    def until(self, word: str) -> str:
        """Listen until a message begins with this word; the message."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.heard.append(self._bound.recv(65536).decode())
            if self.heard[-1].startswith(word):
                return self.heard[-1]
        raise AssertionError(f"{word} did not come: {self.heard}")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(PATIENCE)
        yield Listener(bound)


@pytest.fixture
def serving(prepare: Serve, tmp_path: Path, listener: Listener) -> Serving:
    """A daemon that is watched."""
    made = prepare(GATED)
    watchdog = str(int(WATCHDOG_SECONDS * 1_000_000))
    made.launch(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC=watchdog)
    return made


def test_ready_is_said_when_jobs_are_taken(serving: Serving, listener: Listener) -> None:
    listener.until("READY=1")
    assert serving.ask("GET", "/readyz").status == 200
    assert "WATCHDOG=1" not in listener.heard


def test_the_watchdog_is_fed_in_time_while_jobs_run(serving: Serving, listener: Listener) -> None:
    listener.until("WATCHDOG=1")
    job_id = serving.at_gate()
    started = time.monotonic()
    for _ in range(5):
        listener.until("WATCHDOG=1")
    assert time.monotonic() - started < 5 * WATCHDOG_SECONDS
    serving.let_through(job_id)
    assert serving.wait(job_id)["status"] == "completed"


def test_a_reload_is_announced_and_ended(serving: Serving, listener: Listener) -> None:
    listener.until("READY=1")
    serving.signal(signal.SIGHUP)
    assert "MONOTONIC_USEC=" in listener.until("RELOADING=1")
    listener.until("READY=1")
    serving.configure("[types.gate]\nbroken = 1\n")
    serving.signal(signal.SIGHUP)
    listener.until("RELOADING=1")
    listener.until("READY=1")


def test_stopping_is_said_with_the_time_it_may_take(serving: Serving, listener: Listener) -> None:
    listener.until("READY=1")
    job_id = serving.at_gate()
    serving.signal(signal.SIGTERM)
    listener.until("STOPPING=1")
    listener.until("EXTEND_TIMEOUT_USEC=")
    listener.until("STATUS=stopping: waiting for 1 running jobs")
    listener.until("WATCHDOG=1")
    serving.let_through(job_id)
    assert serving.process.wait(PATIENCE) == 0
