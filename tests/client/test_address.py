"""Which places a client tries, and how they are written."""

from __future__ import annotations

import pytest

from jobqueued.client.address import Address, addresses, default_places, parse_url, places
from jobqueued.client.errors import BadAddress
from jobqueued.config.places import default_socket_path, default_store_path

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


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"RUNTIME_DIRECTORY": "/run/a:/run/b", "XDG_RUNTIME_DIR": "/run/user/1"}, "/run/a"),
        ({"XDG_RUNTIME_DIR": "/run/user/1", "HOME": "/home/me"}, "/run/user/1"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/me"}, "/state/jobqueued"),
        ({"XDG_STATE_HOME": "state", "HOME": "/home/me"}, "/home/me/.local/state/jobqueued"),
    ],
)
def test_the_default_places_are_those_of_the_daemon(
    environment: dict[str, str], directory: str
) -> None:
    own, system, loopback = default_places(environment)
    assert own == f"unix:{directory}/jobqueued.sock"
    assert own == f"unix:{default_socket_path(default_store_path(environment), environment)}"
    assert (system, loopback) == ("unix:/run/jobqueued/jobqueued.sock", "127.0.0.1:5627")


def test_a_library_tries_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBQUEUED_URL", "http://queue:1")
    assert places(None) == [Address(None, "queue", 1)]
    assert places("unix:/a.sock") == [Address("/a.sock")]
    assert places([Address("/b.sock")]) == [Address("/b.sock")]
    monkeypatch.delenv("JOBQUEUED_URL")
    assert places(None)[-1] == Address(None, "127.0.0.1", 5627)
