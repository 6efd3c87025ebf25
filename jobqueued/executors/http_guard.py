"""Which addresses a payload may lead to, checked where the connection is made."""

from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

LOOKUP_THREADS = 16

# Written out because the lists behind `ipaddress.is_global` differ between versions of Python.
_NOT_PUBLIC = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96"))
"""IPv6 forms of IPv4 addresses: NAT64 and mapped."""


class ForbiddenAddress(OSError):
    """A name leads to an address that is not public."""

    def __init__(self, address: str) -> None:
        super().__init__(errno.EACCES, f"{address} is not a public address (allow_private is off)")


def is_public(text: str) -> bool:
    """Whether an address belongs to the internet at large."""
    address = _real_address(ip_address(text.partition("%")[0]))
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def public_socket(address: AddrInfoType) -> socket.socket:
    """A socket for a connection to a public address; ForbiddenAddress for any other."""
    family, kind, protocol, _, place = address
    if not is_public(str(place[0])):
        raise ForbiddenAddress(str(place[0]))
    return socket.socket(family, kind, protocol)


class PublicResolver(AbstractResolver):
    """Leaves out the addresses that are not public; an error when no other is left."""

    def __init__(self, names: AbstractResolver) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        public = [place for place in found if is_public(place["host"])]
        if found and not public:
            raise ForbiddenAddress(found[0]["host"])
        return public

    async def close(self) -> None:
        """The names belong to somebody else."""


class Names(AbstractResolver):
    """Looks names up in threads of its own: a dead name server holds up nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _look_up, host, port, family)

    async def close(self) -> None:
        """Wait for nothing: a lookup under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    # As bytes, because text with a label that is too long raises what is no OSError.
    name = host.encode("ascii")
    found = socket.getaddrinfo(name, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [
        ResolveResult(
            hostname=host,
            host=str(place[0]),
            port=port,
            family=kind,
            proto=protocol,
            flags=numeric,
        )
        for kind, _, protocol, _, place in found
    ]


def _real_address(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 form of it."""
    if isinstance(address, IPv6Address) and any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
