"""Addresses the API listens on: `host:port`, `[v6]:port` or `unix:/path`."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path

import msgspec

LONGEST_SOCKET_PATH = 107
"""Bytes the kernel takes for the path of a unix socket."""

_TCP = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([0-9]{1,5})")
_FORMS = 'write "127.0.0.1:5627", "[::1]:5627" or "unix:/path/to/jobqueued.sock"'


class TcpAddress(msgspec.Struct, frozen=True):
    """A loopback host and a port; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(msgspec.Struct, frozen=True):
    """The path of a unix socket."""

    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


def parse_address(text: str, base: Path = Path("/")) -> TcpAddress | UnixAddress:
    """Read one entry of `server.listen`; a relative socket path starts at `base`."""
    if text.startswith("unix:"):
        return _parse_unix(text.removeprefix("unix:"), base)
    match = _TCP.fullmatch(text)
    if match is None:
        raise ValueError(f"is not an address: {_FORMS}")
    port = int(match[3])
    if port > 65535:
        raise ValueError("has no valid port: ports go from 0 to 65535")
    return TcpAddress(_loopback(match[1], match[2]), port)


def check_socket_path(path: Path) -> None:
    """Refuse a path the kernel would not take for a unix socket."""
    length = len(os.fsencode(path))
    if length > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"is too long for a unix socket: {length} bytes, at most {LONGEST_SOCKET_PATH};"
            " choose a shorter path"
        )


def _parse_unix(text: str, base: Path) -> UnixAddress:
    if not text or "\0" in text or text.startswith("~"):
        raise ValueError('names no socket: write "unix:" and a whole path; "~" is not expanded')
    path = Path(os.path.abspath(base / text))
    check_socket_path(path)
    return UnixAddress(path)


def _loopback(bracketed: str | None, plain: str | None) -> str:
    if bracketed is not None:
        return _loopback_ip(bracketed, ipaddress.IPv6Address)
    if not plain:
        raise ValueError(f"names no host: {_FORMS}")
    return plain if plain == "localhost" else _loopback_ip(plain, ipaddress.IPv4Address)


def _loopback_ip(
    host: str, family: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]
) -> str:
    try:
        address = family(host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback or "%" in host:
        raise ValueError(
            "is not a loopback address: the API is open to whoever reaches it, so it listens on"
            " 127.0.0.1, [::1], localhost or a unix socket only"
        )
    return str(address)
