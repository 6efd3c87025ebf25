"""Addresses that come with a payload: where they may lead, and where not."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from jobqueued.executors.http import HttpExecutor
from jobqueued.executors.http_address import (
    BadAddress,
    address_of,
    host_allowed,
    normal_host,
    origin_of,
    shown,
)
from jobqueued.executors.http_guard import ForbiddenAddress, is_public, public_socket
from jobqueued.model.job_type import HttpHandler
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.executors.http_support import Names, Receiver, a_receiver, http_task
from tests.executors.public_network import PUBLIC

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with a_receiver() as running:
        yield running


def found(
    payload: object, *allowed: str, way: tuple[str, ...] = ("url",), private: bool = False
) -> URL:
    handler = HttpHandler(url_from=way, allowed_hosts=allowed, allow_private=private)
    return address_of(handler, json.dumps(payload).encode())


def fault(payload: object, *allowed: str, way: tuple[str, ...] = ("url",)) -> str:
    with pytest.raises(BadAddress) as caught:
        found(payload, *allowed, way=way)
    return str(caught.value)


def test_the_way_leads_through_the_payload() -> None:
    payload = {"order": {"hook": {"url": "https://a.example/x?y=1"}}, "huge": 10**400}
    url = found(payload, "a.example", way=("order", "hook", "url"))
    assert str(url) == "https://a.example/x?y=1"


@pytest.mark.parametrize("payload", [{}, {"url": {}}, [], "text", None, {"a": {"url": "x"}}])
def test_a_payload_without_an_address(payload: object) -> None:
    text = fault(payload, "a.example", way=("url", "to"))
    assert text == "payload.url.to: there is no such field in the payload"


def test_the_last_of_two_equal_keys_counts() -> None:
    handler = HttpHandler(url_from=("url",), allowed_hosts=("b.example",))
    payload = b'{"url": "http://a.example/", "url": "http://b.example/"}'
    assert address_of(handler, payload).host == "b.example"


@pytest.mark.parametrize("value", [1, None, True, ["http://a.example/"], {"a": 1}])
def test_an_address_is_text(value: object) -> None:
    assert fault({"url": value}, "a.example") == "payload.url: the address is not text"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a.example",
        "//a.example/",
        "/hook",
        "ftp://a.example/",
        "file:///etc/passwd",
        "unix:///run/x.sock",
        "http:///x",
        "http:a.example",
        "http://",
        "http://:80/",
        "http://./",
        "http://a..example/",
        "http://a.example../",
        "http://{/",
        "http://a.example:99999/",
        "http://a.example:x/",
        "http://[::1/",
        "http://a.example/\r\nX: y",
        "http://a.example /",
        " http://a.example/",
        "http://b.example\\@a.example/",
        "http://a.example\x00.b.example/",
        "http://user@a.example/",
        "http://user:word@a.example/",
        "http://:word@a.example/",
    ],
)
def test_what_is_no_address(address: str) -> None:
    assert fault({"url": address}, "a.example").startswith("payload.url: the address ")


def test_a_password_is_not_repeated() -> None:
    assert "geheim" not in fault({"url": "http://ada:geheim@a.example/"}, "a.example")
    assert "geheim" not in fault({"url": "http://b.example/?key=geheim"}, "a.example")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://a.example/", "a.example"),
        ("https://A.Example/", "a.example"),
        ("https://a.example/", "A.EXAMPLE"),
        ("https://a.example./", "a.example"),
        ("https://a.example/", "a.example."),
        ("https://a.example:8443/", "a.example"),
        ("https://b.a.example/", "*.a.example"),
        ("https://c.b.a.example./", "*.A.Example"),
        ("https://bücher.example/", "bücher.example"),
        ("https://xn--bcher-kva.example/", "bücher.example"),
        ("https://BÜCHER.example/", "xn--bcher-kva.example"),
        ("https://x.bücher.example/", "*.bücher.example"),
        ("https://8.8.8.8/", "8.8.8.8"),
        ("https://[2606:4700:0:0::1111]/", "2606:4700::1111"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]"),
        ("https://[::ffff:8.8.8.8]/", "::ffff:8.8.8.8"),
        ("https://under_score.example/", "under_score.example"),
    ],
)
def test_allowed_hosts(address: str, allowed: str) -> None:
    assert found({"url": address}, "first.example", allowed).host


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://b.example/", "a.example"),
        ("https://a.example/", "*.a.example"),
        ("https://nota.example/", "*.a.example"),
        ("https://b.a.example/", "a.example"),
        ("https://a.example.b.example/", "a.example"),
        ("https://a.example@b.example.x/", "a.example"),
        ("https://a.example%2eb.example/", "a.example"),
        ("https://8.8.8.8/", "*.8.8.8"),
        ("https://\N{CYRILLIC SMALL LETTER A}.example/", "a.example"),
        ("https://b.example/", "*"),
        ("https://b.example/", ""),
        ("https://b.example./", "*."),
    ],
)
def test_hosts_that_are_not_allowed(address: str, allowed: str) -> None:
    assert fault({"url": address}, allowed).startswith("payload.url: the ")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.0x1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.1.1",
        "0",
        "0x",
        "a.0x10",
        "\uff18.\uff18",
    ],
)
def test_numbers_in_unusual_forms_are_refused(host: str) -> None:
    text = fault({"url": f"http://{host}/"}, host, "*.0.0.1", "*.1", "*.0x10")
    assert text.endswith("is a number in an unusual form")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020\u30020\u30021",
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
    ],
)
def test_private_numbers_need_a_word_of_permission(host: str) -> None:
    url = {"url": f"http://{host}/"}
    allowed = normal_host(host)
    assert fault(url, allowed).endswith("is not a public address (allow_private is off)")
    assert found(url, allowed, private=True).host


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001:800::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ],
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.255.255.255",
        "100.64.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::192.168.0.1",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses())
def test_the_guard_is_no_laxer_than_the_standard_library(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if is_public(str(address)):
        inside = getattr(address, "ipv4_mapped", None) or address
        translated = address in ipaddress.ip_network("64:ff9b::/96")
        assert inside.is_global or translated
        assert not any((inside.is_loopback, inside.is_link_local, inside.is_multicast))


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_an_address_or_a_fault(text: str, allowed: str) -> None:
    handler = HttpHandler(url_from=("url",), allowed_hosts=("a.example", allowed))
    for address in (text, f"http://{text}", f"http://a.example{text}", f"http://{text}a.example"):
        payload = json.dumps({"url": address}).encode(errors="surrogatepass")
        try:
            url = address_of(handler, payload)
        except BadAddress:
            continue
        host = normal_host(url.raw_host or "")
        assert host_allowed(host, handler.allowed_hosts)
        assert host.isascii()
        assert origin_of(url)
        assert shown(url)


def test_the_last_check_is_where_the_socket_is_made() -> None:
    with pytest.raises(ForbiddenAddress, match=r"127\.0\.0\.1 is not a public address"):
        public_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))
    with public_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 80))) as made:
        assert made.family is socket.AF_INET


def test_origins_and_what_is_shown() -> None:
    url = URL("https://ada:word@Shop.example.:443/a%2Fb?key=1#part")
    assert origin_of(url) == "https://shop.example"
    assert shown(url) == "https://shop.example./a%2Fb"
    assert origin_of(URL("http://[::1]:8080/x")) == "http://[::1]:8080"


async def send(executor: HttpExecutor, url: str, allow_private: bool = False) -> Outcome:
    payload = json.dumps({"url": url}).encode()
    task = http_task(
        payload=payload,
        url_from=("url",),
        allowed_hosts=("*.example",),
        allow_private=allow_private,
    )
    return await executor.run(task)


async def test_a_name_that_leads_inside_is_refused(receiver: Receiver) -> None:
    names = Names(["127.0.0.1", "::1"])
    executor = HttpExecutor(resolver=names)
    outcome = await send(executor, receiver.url(host="hooks.example"))
    assert outcome.kind is OutcomeKind.FATAL
    assert outcome.error == (
        f"hooks.example:{receiver.port}: 127.0.0.1 is not a public address (allow_private is off)"
    )
    assert names.asked == ["hooks.example"]
    assert receiver.requests == []
    await executor.close()
    assert names.closed


async def test_a_name_that_leads_inside_is_fine_with_permission(receiver: Receiver) -> None:
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    outcome = await send(executor, receiver.url("/x", host="hooks.example"), allow_private=True)
    await executor.close()
    assert outcome.kind is OutcomeKind.COMPLETED
    assert receiver.requests[0].target == "/x"


async def test_no_open_connection_leads_around_the_guard(receiver: Receiver) -> None:
    """The same host, first by the operator's word and with permission, then without."""
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    url = receiver.url(host="hooks.example")
    assert (await executor.run(http_task(url=url))).kind is OutcomeKind.COMPLETED
    assert (await send(executor, url, allow_private=True)).kind is OutcomeKind.COMPLETED
    assert (await send(executor, url)).kind is OutcomeKind.FATAL
    await executor.close()
    assert len(receiver.requests) == 2


async def test_no_connection_to_a_host_from_a_payload_is_kept(receiver: Receiver) -> None:
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    peers = set()

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response()

    receiver.reply = reply
    for _ in range(3):
        await send(executor, receiver.url(host="hooks.example"), allow_private=True)
    assert len(peers) == 3
    for _ in range(3):
        await executor.run(http_task(url=receiver.url()))
    await executor.close()
    assert len(peers) == 4


async def test_a_redirect_leads_nowhere(receiver: Receiver) -> None:
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    receiver.answers(302, Location=receiver.url("/inside"))
    outcome = await send(executor, receiver.url(host="hooks.example"), allow_private=True)
    await executor.close()
    assert outcome.kind is OutcomeKind.FATAL
    assert len(receiver.requests) == 1


async def test_a_bad_address_is_fatal_and_logged() -> None:
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    outcome = await send(executor, "http://elsewhere.invalid/?key=geheim")
    await executor.close()
    assert outcome.kind is OutcomeKind.FATAL
    assert outcome.error == ("payload.url: the host elsewhere.invalid is not one of allowed_hosts")
    assert outcome.log == f"{outcome.error}\n".encode()


def in_a_network_of_its_own(module: str, address: str) -> dict[str, list[str]]:
    """Run a module where a public address is this machine; what it prints."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("unshare and ip are needed to make a network")
    prepare = f"ip link set lo up && ip address add {address}/32 dev lo"
    made = subprocess.run(["unshare", "-rn", "sh", "-c", prepare], capture_output=True, timeout=30)
    if made.returncode != 0:
        pytest.skip("this machine does not let us make a network")
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", f'{prepare} && exec "$0" -m {module}', sys.executable],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=50,
    )
    told: dict[str, list[str]] = json.loads(done.stdout)
    return told


def test_what_is_public_is_reached_and_nothing_else() -> None:
    told = in_a_network_of_its_own("tests.executors.public_network", PUBLIC)
    assert told == {
        "public name": ["completed", PUBLIC],
        "the same name, bound to a private address by now": ["fatal"],
        "public number": ["completed", PUBLIC],
        "public and private addresses": ["completed", PUBLIC],
        "public address that is down": ["failed"],
        "mapped private address": ["fatal"],
    }
