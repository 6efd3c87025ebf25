"""Hosts and URLs of webhooks, as the configuration may name them."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

LONGEST_HOST = 253
LONGEST_URL = 8000
SCHEMES = ("http", "https")

_LABEL = re.compile(rb"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_SAMPLES = '"hooks.example.com" or "*.example.com"'
_IN_HEADERS = 'send them in a header: headers = { Authorization = "Basic …" }'


def check_url(text: str) -> None:
    """Refuse what cannot be posted to; a URL may hold a password, so no message shows it."""
    if len(text) > LONGEST_URL:
        raise ValueError(f"is longer than {LONGEST_URL} characters")
    # The parser of the standard library silently drops some of these.
    if not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("must not contain spaces, backslashes or control characters")
    parts = _split(text)
    if parts.scheme not in SCHEMES:
        raise ValueError('must start with "https://" or "http://"')
    if "@" in parts.netloc:
        raise ValueError(f"must not contain a user name or password: {_IN_HEADERS}")
    if not parts.hostname:
        raise ValueError("names no host")
    if not is_host(parts.hostname):
        raise ValueError("has a host that is neither a name nor an IP address")
    if "#" in text:
        raise ValueError('must not contain "#": what follows it is never sent')


def read_host(text: str) -> str:
    """One entry of `allowed_hosts`: in lower case, an IPv6 address without its brackets."""
    host = text.lower().removesuffix(".")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if host == "*":
        raise ValueError(f"is every host: name those that are meant, such as {_SAMPLES}")
    name = host.removeprefix("*.")
    if "*" in name:
        raise ValueError('has a "*" that is not its first part, as in "*.example.com"')
    if not is_host(name) or (name != host and is_address(name)):
        raise ValueError(f"is not a host alone, such as {_SAMPLES}{_host_inside(text)}")
    return host


def is_host(host: str) -> bool:
    """Whether it is an IP address or can be the name of a host, in any script."""
    if is_address(host):
        return True
    if len(host) > LONGEST_HOST:
        return False
    try:
        name = host.removesuffix(".").encode("idna")
    except UnicodeError:
        return False
    return len(name) <= LONGEST_HOST and all(map(_LABEL.fullmatch, name.split(b".")))


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine."""
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    name = host.lower().removesuffix(".")
    return name == "localhost" or name.endswith(".localhost")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        valid = parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("has a host or a port that is not valid")
    return parts


def _host_inside(text: str) -> str:
    """Whoever wrote a whole URL, or a host with its port, means the host in it."""
    try:
        host = urlsplit(text if "//" in text else f"//{text}").hostname
    except ValueError:
        return ""
    return f' (did you mean "{host}"?)' if host and is_host(host) else ""
