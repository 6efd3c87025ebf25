"""Binding the addresses of `server.listen`."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import NamedTuple

from jobqueued.config import TcpAddress, UnixAddress, parse_address

SOCKET_MODE = 0o660

_NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_ADVICE = "; end what listens there, or change server.listen"
_PROBE_SECONDS = 5.0


class SocketFile(NamedTuple):
    """The file of a unix socket that was bound here."""

    path: Path
    inode: int

    def remove(self) -> None:
        """Remove it, unless somebody has put another in its place."""
        try:
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()
        except FileNotFoundError:
            return


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
        advice = _ADVICE if error.errno == errno.EADDRINUSE else ""
        reason = f"cannot listen on {text}: {error.strerror or error}{advice}"
        raise OSError(error.errno, reason) from error


def name_of(bound: socket.socket) -> str:
    """The address of a socket in the form of `server.listen`."""
    place = bound.getsockname()
    if bound.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(place)}"
    return str(TcpAddress(place[0], place[1]))


def file_of(bound: socket.socket) -> SocketFile:
    """The file of a unix socket just bound; it keeps its inode for as long as it is open."""
    path = Path(os.fsdecode(bound.getsockname()))
    return SocketFile(path, path.lstat().st_ino)


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
    """Remove the socket of a daemon that died; one that is alive keeps its own."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_socket and _is_dead(path):
        path.unlink(missing_ok=True)


def _is_dead(path: Path) -> bool:
    """Whether nobody listens on a socket; OSError when somebody does or it cannot be told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        # A daemon that is too busy to accept is alive.
        except (TimeoutError, BlockingIOError):
            pass
    raise OSError(errno.EADDRINUSE, "a daemon is answering there")
