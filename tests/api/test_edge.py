from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.api.body import is_json
from jobqueued.api.edge import is_our_name


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:5627", "127.9.8.7", "[::1]", "[::1]:1"],
)
def test_loopback_is_us(host: str) -> None:
    assert is_our_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "example.com",
        "localhost.example.com",
        "localhost:80:80",
        "localhost:80a",
        "127.0.0.1.example.com",
        "127.0.0.1:",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "[::1",
        "::1",
        "[::1%lo]",
        "[::ffff:127.0.0.1]x",
        "user@localhost",
        "2130706433",
        "127.1",
    ],
)
def test_anything_else_is_not(host: str) -> None:
    assert not is_our_name(host)


@given(st.text())
def test_no_host_is_more_than_foreign(host: str) -> None:
    assert is_our_name(host) in (True, False)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON; charset=UTF-8",
        'application/json;charset="utf-8"',
        "application/vnd.api+json",
        "application/json; profile=x",
    ],
)
def test_json_is_json(content_type: str) -> None:
    assert is_json(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/jsonx",
        "application/+json",
        "+json",
        "application/json/x",
    ],
)
def test_other_kinds_are_not(content_type: str) -> None:
    assert not is_json(content_type)
