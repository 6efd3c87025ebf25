"""Who is on the other end of a connection, as it is kept beside what they did."""

from __future__ import annotations

import pwd
import socket
import struct
from functools import lru_cache

from aiohttp import web

_CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid, as the kernel knows them."""


def peer_of(request: web.BaseRequest) -> str:
    """`user NAME` over the unix socket, else the address."""
    transport = request.transport
    if transport is None:
        return "unknown"
    if not isinstance(transport.get_extra_info("sockname"), str | bytes):
        name = transport.get_extra_info("peername")
        return str(name[0]) if name else "unknown"
    return f"user {_user_name(_uid(transport.get_extra_info('socket').fileno()))}"


def _uid(descriptor: int) -> int:
    """The user who connected; the descriptor stays the transport's."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        told = borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    finally:
        borrowed.detach()
    return int(_CREDENTIALS.unpack(told)[1])


@lru_cache(maxsize=256)
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
