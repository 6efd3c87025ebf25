"""Where a webhook goes: the address of its type, or one found in the payload and checked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from yarl import URL

from jobqueued.executors.http_guard import is_public
from jobqueued.model.job_type import HttpHandler

_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f\\]")
_SHOWN = 200


class BadAddress(Exception):
    """There is no address to send to, or not one that may be used."""


def address_of(handler: HttpHandler, payload: bytes) -> URL:
    """The address a job goes to; BadAddress says why there is none."""
    if handler.url is not None:
        return parse_address(handler.url)
    where = ".".join(("payload", *handler.url_from))
    try:
        url = parse_address(_text_at(payload, handler.url_from))
        _check_host(url, handler)
    except BadAddress as error:
        raise BadAddress(f"{where}: {error}") from None
    return url


def parse_address(text: str) -> URL:
    """An http or https address with a host."""
    if _NOT_IN_ADDRESSES.search(text):
        raise BadAddress("the address has spaces, control characters or backslashes in it")
    try:
        url = URL(text)
        # Parsing lets characters pass that no host can have; building does not.
        URL.build(scheme="http", host=url.raw_host or "none")
    except ValueError:
        raise BadAddress("the address cannot be read") from None
    labels = normal_host(url.raw_host or "").split(".")
    if url.scheme not in ("http", "https") or not all(labels):
        raise BadAddress("the address must begin with http:// or https:// and a host")
    return url


@lru_cache(maxsize=1024)
def origin_of(url: URL) -> str:
    """Scheme, host and port: what is well or sick as one."""
    host = normal_host(url.raw_host or "")
    return str(URL.build(scheme=url.scheme, host=host, port=url.port))


def shown(url: URL) -> str:
    """An address fit for logs: user names, passwords and queries are often secrets."""
    return str(url.with_user(None).with_query(None).with_fragment(None))


def host_allowed(host: str, allowed: Sequence[str]) -> bool:
    """Whether a host as `normal_host` gives it is in a list of names, some with a leading `*.`."""
    return any(_matches(host, pattern) for pattern in allowed)


@lru_cache(maxsize=4096)
def normal_host(host: str) -> str:
    """One spelling for each host: lower case, ASCII, without the final dot."""
    address = _ip_address(host.strip("[]"))
    if address is not None:
        return str(address)
    try:
        encoded = URL.build(scheme="http", host=host).raw_host or ""
    except ValueError:
        return host
    return encoded.lower().removesuffix(".")


def _matches(host: str, pattern: str) -> bool:
    if not pattern.startswith("*."):
        return host == normal_host(pattern)
    if _ip_address(host) is not None:
        return False
    return host.endswith(f".{normal_host(pattern[2:])}")


def _text_at(payload: bytes, way: Sequence[str]) -> str:
    found = msgspec.Raw(payload)
    try:
        for key in way:
            found = msgspec.json.decode(found, type=dict[str, msgspec.Raw])[key]
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadAddress("there is no such field in the payload") from None
    try:
        return msgspec.json.decode(found, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadAddress("the address is not text") from None


def _check_host(url: URL, handler: HttpHandler) -> None:
    if url.raw_user is not None or url.raw_password is not None:
        raise BadAddress("the address must not hold a user name or password")
    host = normal_host(url.raw_host or "")
    address = _ip_address(host)
    if address is None and _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise BadAddress(f"the host {host[:_SHOWN]} is a number in an unusual form")
    if not host_allowed(host, handler.allowed_hosts):
        raise BadAddress(f"the host {host[:_SHOWN]} is not one of allowed_hosts")
    if address is not None and not handler.allow_private and not is_public(str(address)):
        raise BadAddress(f"{host[:_SHOWN]} is not a public address (allow_private is off)")


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
