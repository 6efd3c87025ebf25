"""Binding the addresses of `server.listen`."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from jobqueued.config import TcpAddress, UnixAddress, parse_address

SOCKET_MODE = 0o660

_NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def bind(text: str) -> list[socket.socket]:
    """The bound sockets of one address, not yet listening; OSError says which address failed."""
    address = parse_address(text)
    try:
        if isinstance(address, UnixAddress):
            return [_bind_unix(address.path)]
        if address.host == "localhost":
            return _bind_localhost(address.port)
        return [_bind_tcp(address)]
    except OSError as error:
        reason = f"cannot listen on {text}: {error.strerror or error}"
        raise OSError(error.errno, reason) from error


def name_of(bound: socket.socket) -> str:
    """The address of a socket in the form of `server.listen`."""
    place = bound.getsockname()
    if bound.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(place)}"
    return str(TcpAddress(place[0], place[1]))


def _bind_localhost(port: int) -> list[socket.socket]:
    bound = [_bind_tcp(TcpAddress("127.0.0.1", port))]
    try:
        bound.append(_bind_tcp(TcpAddress("::1", bound[0].getsockname()[1])))
    except OSError as error:
        if error.errno not in _NO_IPV6:
            bound[0].close()
            raise
    return bound


def _bind_tcp(address: TcpAddress) -> socket.socket:
    is_v6 = ":" in address.host
    bound = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_v6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address.host, address.port))
    except BaseException:
        bound.close()
        raise
    return bound


def _bind_unix(path: Path) -> socket.socket:
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        # Nobody can connect before listen(), so there is no moment with a wider mode.
        path.chmod(SOCKET_MODE)
    except BaseException:
        bound.close()
        raise
    return bound


def _remove_stale(path: Path) -> None:
    """Remove the socket of a daemon that died; the lock on the store says that none is alive."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_socket:
        path.unlink()
