"""Which places a client tries, and how they are written."""

from __future__ import annotations

import pytest

from jobqueued.client.address import Address, addresses, parse_url
from jobqueued.client.errors import BadAddress

LISTEN = ["127.0.0.1:5627", "unix:/run/own.sock"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:5627", Address(None, "127.0.0.1", 5627)),
        ("http://queue.example:8080/", Address(None, "queue.example", 8080)),
        ("http://[::1]:5627", Address(None, "::1", 5627)),
        ("http://localhost", Address(None, "localhost", 80)),
        ("unix:/run/a b.sock", Address("/run/a b.sock")),
        ("unix:///run/x.sock", Address("/run/x.sock")),
    ],
)
def test_urls_are_read(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "localhost:5627",
        "https://localhost:5627",
        "http://",
        "http://localhost:99999",
        "http://localhost:port",
        "http://[::1",
        "http://localhost/jobs",
        "http://me@localhost:5627",
        "http://localhost:5627?x=1",
        "unix:run/x.sock",
        "unix:",
        "unix:/run/\0",
        "",
    ],
)
def test_other_texts_are_refused_with_a_hint(url: str) -> None:
    with pytest.raises(BadAddress, match="write http://HOST:PORT or unix:/PATH") as caught:
        parse_url(url)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("url", ["http://[::1]:5627", "http://127.0.0.1:80", "unix:/run/x.sock"])
def test_an_address_is_written_as_it_is_read(url: str) -> None:
    assert str(parse_url(url)) == url


def test_the_option_wins_over_the_environment() -> None:
    found = addresses("unix:/option", {"JOBQUEUED_URL": "unix:/environment"}, LISTEN)
    assert found == [Address("/option")]


def test_the_environment_wins_over_the_places_of_a_daemon() -> None:
    found = addresses(None, {"JOBQUEUED_URL": "unix:/environment"}, LISTEN)
    assert found == [Address("/environment")]


def test_of_the_places_of_a_daemon_sockets_come_first() -> None:
    found = addresses(None, {"JOBQUEUED_URL": ""}, LISTEN)
    assert found == [Address("/run/own.sock"), Address(None, "127.0.0.1", 5627)]
