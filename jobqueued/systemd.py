"""What the daemon and systemd tell each other; silent and harmless without systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from jobqueued import clock

FIRST_PASSED_DESCRIPTOR = 3
MOST_PASSED_DESCRIPTORS = 256
LONGEST_STATUS = 1000


class Systemd:
    """Tells systemd how the daemon is; never raises and never blocks."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take what systemd put into the environment, so that no child inherits it."""
        self._address = _notify_address(environment.pop("NOTIFY_SOCKET", ""))
        self._watchdog_seconds = _watchdog_seconds(environment)
        self._socket = _datagram_socket() if self._address else None

    @property
    def watchdog_seconds(self) -> float | None:
        """How long systemd waits for the next `watchdog()`; None where nobody watches."""
        return self._watchdog_seconds

    def ready(self) -> None:
        """Started, or reloaded: open for work."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Reading the configuration again; `ready()` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={_microseconds(clock.monotonic())}")

    def stopping(self) -> None:
        """On the way out."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line for people, shown by `systemctl status`."""
        # A line break would start another assignment.
        self._send("STATUS=" + " ".join(text.split())[:LONGEST_STATUS])

    def watchdog(self) -> None:
        """Still making progress."""
        self._send("WATCHDOG=1")

    def extend(self, seconds: float) -> None:
        """Ask for this much more time, from now, to start or to stop."""
        self._send(f"EXTEND_TIMEOUT_USEC={_microseconds(seconds)}")

    def close(self) -> None:
        """Say nothing from now on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode("utf-8", "replace"), self._address)
        except OSError:
            # A full or vanished socket is systemd's affair; the jobs matter more.
            return


def passed_sockets(environment: MutableMapping[str, str] = os.environ) -> list[socket.socket]:
    """The listening sockets that systemd opened for this process, in the order of their units."""
    owner = _whole_number(environment.pop("LISTEN_PID", ""))
    count = _whole_number(environment.pop("LISTEN_FDS", ""))
    environment.pop("LISTEN_FDNAMES", None)
    if owner != os.getpid() or count is None:
        return []
    last = FIRST_PASSED_DESCRIPTOR + min(count, MOST_PASSED_DESCRIPTORS)
    found = [_listening_socket(number) for number in range(FIRST_PASSED_DESCRIPTOR, last)]
    return [passed for passed in found if passed is not None]


def _listening_socket(descriptor: int) -> socket.socket | None:
    try:
        os.set_inheritable(descriptor, False)
        passed = socket.socket(fileno=descriptor)
    except OSError:
        return None
    if not _listens(passed):
        passed.detach()
        return None
    passed.setblocking(False)
    return passed


def _listens(passed: socket.socket) -> bool:
    if passed.type != socket.SOCK_STREAM:
        return False
    return passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _notify_address(text: str) -> str:
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def _watchdog_seconds(environment: MutableMapping[str, str]) -> float | None:
    limit = _whole_number(environment.pop("WATCHDOG_USEC", ""))
    owner = environment.pop("WATCHDOG_PID", "")
    if not limit or (owner and _whole_number(owner) != os.getpid()):
        return None
    return limit / 1_000_000


def _datagram_socket() -> socket.socket | None:
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)
