"""Where a daemon listens, and which of those places a client tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from jobqueued.client.errors import BadAddress


class Address(NamedTuple):
    """A unix socket when `path` is set, else a TCP host and port."""

    path: str | None
    host: str = "localhost"
    port: int = 80

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


def _parse_socket(url: str) -> Address:
    path = url.removeprefix("unix:")
    if path.startswith("///"):
        path = path[2:]
    if not path.startswith("/") or path.startswith("//") or "\0" in path:
        raise _not_an_address(url)
    return Address(path)


def _not_an_address(url: str) -> BadAddress:
    return BadAddress(f"{url!r} is not an address: write http://HOST:PORT or unix:/PATH")
