"""Who may ask at all: our own names only, and no web page of another site."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from aiohttp import hdrs, web

from jobqueued.api.errors import Problem

_SEC_FETCH_SITE = "Sec-Fetch-Site"


def check_edge(request: web.BaseRequest) -> None:
    """Refuse requests a browser was tricked into sending."""
    headers = request.headers
    host = _named_host(request)
    if not is_our_name(host) and not _over_unix_socket(request):
        raise Problem(
            403,
            "foreign_host",
            "The Host header names another machine: call http://127.0.0.1 or http://localhost.",
            closes=True,
        )
    if headers.get(_SEC_FETCH_SITE) in ("cross-site", "same-site"):
        raise _cross_site()
    origin = headers.get(hdrs.ORIGIN)
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise _cross_site()


def _named_host(request: web.BaseRequest) -> str:
    """Whom the client means: the Host header, or the address it sent instead of a path."""
    target = request.raw_path
    if target.startswith("/") or "://" not in target:
        return request.headers.get(hdrs.HOST, "")
    return target.partition("://")[2].partition("/")[0]


@lru_cache(maxsize=256)
def is_our_name(host: str) -> bool:
    """Whether a Host header means this machine: loopback, any port."""
    name = _without_port(host).lower()
    if name == "localhost":
        return True
    try:
        if name.startswith("["):
            return ipaddress.IPv6Address(name[1:-1]).is_loopback and "%" not in name
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    """The name alone; what is not `name` or `name:digits` comes back whole and fits nothing."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        return host
    return name if port.isdecimal() and port.isascii() else host


def _over_unix_socket(request: web.BaseRequest) -> bool:
    return isinstance(request.protocol.sockname, str | bytes)


def _cross_site() -> Problem:
    return Problem(403, "cross_site", "Requests from other web pages are refused.", closes=True)
