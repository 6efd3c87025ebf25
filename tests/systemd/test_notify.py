"""What systemd hears, through a real datagram socket."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.systemd import Systemd


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(5)
        yield bound


@pytest.fixture
def systemd(listener: socket.socket) -> Iterator[Systemd]:
    speaker = Systemd({"NOTIFY_SOCKET": listener.getsockname()})
    yield speaker
    speaker.close()


def heard(listener: socket.socket) -> str:
    return listener.recv(65536).decode()


def test_each_word_arrives_as_systemd_spells_it(listener: socket.socket, systemd: Systemd) -> None:
    systemd.ready()
    assert heard(listener) == "READY=1"
    systemd.stopping()
    assert heard(listener) == "STOPPING=1"
    systemd.watchdog()
    assert heard(listener) == "WATCHDOG=1"
    systemd.extend(2.5)
    assert heard(listener) == "EXTEND_TIMEOUT_USEC=2500000"
    systemd.status("10 of 10 workers busy")
    assert heard(listener) == "STATUS=10 of 10 workers busy"


def test_reloading_carries_the_monotonic_moment(listener: socket.socket, systemd: Systemd) -> None:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    systemd.reloading()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    first, second = heard(listener).split("\n")
    assert first == "RELOADING=1"
    name, moment = second.split("=")
    assert name == "MONOTONIC_USEC"
    assert before - 1 <= int(moment) <= after + 1


def test_a_status_cannot_smuggle_in_another_word(listener: socket.socket, systemd: Systemd) -> None:
    systemd.status("draining\nREADY=1\n")
    assert heard(listener) == "STATUS=draining READY=1"


def test_a_status_of_any_text_is_sent_and_bounded(
    listener: socket.socket, systemd: Systemd
) -> None:
    systemd.status("\udcff" + "x" * 100_000)
    message = heard(listener)
    assert message.startswith("STATUS=?xxx")
    assert len(message) < 2000


def test_abstract_sockets_are_spoken_to() -> None:
    name = f"jobqueued-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind("\0" + name)
        bound.settimeout(5)
        speaker = Systemd({"NOTIFY_SOCKET": "@" + name})
        speaker.ready()
        assert heard(bound) == "READY=1"
        speaker.close()


def test_a_full_socket_never_holds_up_the_daemon(listener: socket.socket, systemd: Systemd) -> None:
    started = time.monotonic()
    for _ in range(5000):
        systemd.watchdog()
    assert time.monotonic() - started < 5
    assert heard(listener) == "WATCHDOG=1"


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@", "vsock:2:1234", "/" + "x" * 300])
def test_without_a_listener_everything_is_silent(address: str) -> None:
    speaker = Systemd({"NOTIFY_SOCKET": address})
    speaker.ready()
    speaker.reloading()
    speaker.stopping()
    speaker.status("alone")
    speaker.watchdog()
    speaker.extend(1)
    speaker.close()
    speaker.ready()
    assert speaker.watchdog_seconds is None


def test_a_listener_that_went_away_is_harmless(listener: socket.socket, systemd: Systemd) -> None:
    systemd.ready()
    assert heard(listener) == "READY=1"
    Path(listener.getsockname()).unlink()
    systemd.watchdog()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.recv(100)


def test_children_do_not_inherit_the_environment(listener: socket.socket) -> None:
    environment = {
        "NOTIFY_SOCKET": listener.getsockname(),
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "HOME": "/home/somebody",
    }
    speaker = Systemd(environment)
    assert environment == {"HOME": "/home/somebody"}
    assert speaker.watchdog_seconds == 30.0
    speaker.close()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "me"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
    ],
)
def test_the_watchdog_interval_is_ours_or_nobodys(
    environment: dict[str, str], seconds: float | None
) -> None:
    assert Systemd(environment).watchdog_seconds == seconds
