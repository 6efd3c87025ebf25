"""Where a daemon listens, and which of those places a client tries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from jobqueued.client.errors import BadAddress

SOCKET_NAME = "jobqueued.sock"
LOOPBACK = "127.0.0.1:5627"


class Address(NamedTuple):
    """A unix socket when `path` is set, else a TCP host and port."""

    path: str | None
    host: str = "localhost"
    port: int = 80

    @property
    def is_here(self) -> bool:
        """Whether it is surely on this machine: no network comes between us."""
        if self.path is not None:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def parse_url(url: str) -> Address:
    """Read `http://host:port` or `unix:/path`."""
    if url.startswith("unix:"):
        return _parse_socket(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _not_an_address(url) from error
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
        raise _not_an_address(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise _not_an_address(url)
    return Address(None, parts.hostname, 80 if port is None else port)


def addresses(
    option: str | None, environment: Mapping[str, str], listen: Sequence[str]
) -> list[Address]:
    """The places to try: `--url`, else `$JOBQUEUED_URL`, else of `listen` the sockets first."""
    url = option or environment.get("JOBQUEUED_URL")
    if url:
        return [parse_url(url)]
    sockets = [place for place in listen if place.startswith("unix:")]
    ports = [f"http://{place}" for place in listen if not place.startswith("unix:")]
    return [parse_url(place) for place in sockets + ports]


def places(url: str | Sequence[Address] | None) -> list[Address]:
    """The places a library tries: those given, else $JOBQUEUED_URL, else the default ones."""
    if url is not None and not isinstance(url, str):
        return list(url)
    return addresses(url, os.environ, default_places(os.environ))


def default_key() -> str | None:
    """$JOBQUEUED_KEY."""
    return os.environ.get("JOBQUEUED_KEY")


def default_places(environment: Mapping[str, str]) -> list[str]:
    """Where a daemon listens when nobody says: its user's socket, the system's, the loopback."""
    socket = f"unix:{_own_directory(environment)}/{SOCKET_NAME}"
    return [socket, f"unix:/run/jobqueued/{SOCKET_NAME}", LOOPBACK]


def _own_directory(environment: Mapping[str, str]) -> str:
    runtime = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    session = environment.get("XDG_RUNTIME_DIR", "")
    if runtime or os.path.isabs(session):
        return os.path.abspath(runtime or session)
    state = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME") or os.path.expanduser("~")
    return os.path.join(state if os.path.isabs(state) else f"{home}/.local/state", "jobqueued")


def _parse_socket(url: str) -> Address:
    path = url.removeprefix("unix:")
    if path.startswith("///"):
        path = path[2:]
    if not path.startswith("/") or path.startswith("//") or "\0" in path:
        raise _not_an_address(url)
    return Address(path)


def _not_an_address(url: str) -> BadAddress:
    return BadAddress(f"{url!r} is not an address: write http://HOST:PORT or unix:/PATH")
