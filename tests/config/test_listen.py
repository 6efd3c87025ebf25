from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.config import TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:5627", TcpAddress("127.0.0.1", 5627)),
        ("127.8.9.10:1", TcpAddress("127.8.9.10", 1)),
        ("localhost:65535", TcpAddress("localhost", 65535)),
        ("[::1]:5627", TcpAddress("::1", 5627)),
        ("127.0.0.1:0", TcpAddress("127.0.0.1", 0)),
        ("unix:/run/jobqueued.sock", UnixAddress(Path("/run/jobqueued.sock"))),
        ("unix:run/../q.sock", UnixAddress(Path("/base/q.sock"))),
    ],
)
def test_addresses(text: str, address: TcpAddress | UnixAddress) -> None:
    assert parse_address(text, Path("/base")) == address


@pytest.mark.parametrize("text", ["127.0.0.1:5627", "[::1]:5627", "localhost:80", "unix:/a/b"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:5627", "[::]:5627", "192.168.1.1:80", "[2001:db8::1]:80", "example.org:80",
     "[::ffff:127.0.0.1]:80", "127.0.0.1.evil.org:80", "127.1:80", "[127.0.0.1]:80",
     "[::1%lo]:80", "localhost.example.org:80"],
)  # fmt: skip
def test_only_loopback_is_listened_on(text: str) -> None:
    with pytest.raises(ValueError, match="is not a loopback address"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an address"),
        ("5627", "is not an address"),
        ("127.0.0.1", "is not an address"),
        ("::1:5627", "is not an address"),
        ("127.0.0.1:", "is not an address"),
        ("127.0.0.1:-1", "is not an address"),
        ("127.0.0.1:٣", "is not an address"),
        ("http://127.0.0.1:80", "is not an address"),
        ("127.0.0.1:80\n", "is not an address"),
        (":5627", "names no host"),
        ("127.0.0.1:65536", "ports go from 0 to 65535"),
        ("unix:", "names no socket"),
        ("unix:~/q.sock", '"~" is not expanded'),
        ("unix:/a\0b", "names no socket"),
    ],
)
def test_what_is_no_address(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_address(text)


def test_a_socket_path_has_at_most_107_bytes() -> None:
    assert parse_address("unix:/" + "x" * 106) == UnixAddress(Path("/" + "x" * 106))
    with pytest.raises(ValueError, match="too long for a unix socket: 108 bytes, at most 107"):
        parse_address("unix:/" + "x" * 107)


def test_the_length_of_a_socket_path_is_in_bytes_from_the_root() -> None:
    with pytest.raises(ValueError, match="too long for a unix socket: 121 bytes"):
        parse_address("unix:/" + "ü" * 60)
    with pytest.raises(ValueError, match="too long for a unix socket"):
        parse_address("unix:q.sock", Path("/" + "x" * 104))


@given(st.text() | st.text().map("unix:{}".format) | st.from_regex(r"\A[^:]*:[0-9]+\Z"))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        address = parse_address(text)
        assert str(parse_address(str(address))) == str(address)
