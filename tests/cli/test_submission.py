"""What `submit` makes of its arguments before anything is sent."""

from __future__ import annotations

import json

import click
import pytest

from jobqueued.cli.submit import ending, read_payload, request_body, spell_out_wait


@pytest.mark.parametrize(
    "text",
    ['{"a": 1.10, "b": 123456789012345678901234567890}', "[]", '"é"', "1e999", "9" * 5000, "null"],
)
def test_a_payload_goes_in_as_it_was_written(text: str) -> None:
    body = request_body("hello", read_payload(text), {"priority": 0, "key": None})
    assert body == b'{"type": "hello", "priority": 0, "payload": ' + text.encode() + b"}"


def test_without_a_payload_none_is_sent() -> None:
    assert json.loads(request_body("hello", read_payload(None), {})) == {"type": "hello"}


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", "hello", "NaN", "[Infinity]", "1 2", "\udcff", "[" * 100_000]
)
def test_what_is_not_json_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="the payload is "):
        read_payload(text)


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        (["hello", "--wait"], ["hello", "--wait=forever"]),
        (["--wait", "hello"], ["--wait=forever", "hello"]),
        (["--wait", "5", "hello"], ["--wait=5", "hello"]),
        (["hello", "--wait", "1.5m"], ["hello", "--wait=1.5m"]),
        (["hello", "--wait", "{}"], ["hello", "--wait=forever", "{}"]),
        (["--wait", "--json", "hello"], ["--wait=forever", "--json", "hello"]),
        (["--wait=3", "hello"], ["--wait=3", "hello"]),
        (["hello", "--", "--wait"], ["hello", "--", "--wait"]),
    ],
)
def test_wait_takes_a_time_only_where_one_follows(given: list[str], spelled: list[str]) -> None:
    assert spell_out_wait(given) == spelled


@pytest.mark.parametrize(
    ("status", "result", "error", "words"),
    [
        ("completed", b'{"n": 1.50}', None, 'completed: {"n": 1.50}'),
        ("completed", b"null", "earlier", "completed"),
        ("pending", b"null", None, "not over yet, pending"),
        ("retrying", b"null", "exit 3", "not over yet, retrying: exit 3"),
        ("dead", b"null", "exit 3\nmore", "dead: exit 3\\nmore"),
        ("cancelled", b"null", None, "cancelled"),
    ],
)
def test_an_ending_is_told_in_a_line(
    status: str, result: bytes, error: str | None, words: str
) -> None:
    head = json.dumps({"status": status, "last_error": error}).encode()
    assert ending(head[:-1] + b', "result": ' + result + b"}") == words
