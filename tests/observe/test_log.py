"""The log: it never holds up the daemon, and says what it left out."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator

import pytest

from jobqueued.observe import log
from jobqueued.observe.log import QueuedHandler

PATIENCE = 15.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("jobqueued", logging.INFO, "", 0, text, (), None)


def test_lines_arrive_in_order(pipe: tuple[int, int]) -> None:
    with os.fdopen(pipe[1], "w") as stream:
        handler = QueuedHandler(stream)
        for number in range(100):
            handler.emit(record(f"line {number}"))
        handler.close()
    text = os.read(pipe[0], 65536).decode()
    assert text.splitlines() == [f"line {number}" for number in range(100)]


def test_a_reader_that_stalls_holds_up_nobody(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_LINES", 50)
    monkeypatch.setattr(log, "CLOSE_SECONDS", 0.05)
    os.set_blocking(pipe[0], False)
    with os.fdopen(pipe[1], "w") as stream:
        handler = QueuedHandler(stream)
        for _ in range(200):
            handler.emit(record("x" * 4096))
        text = read_until(pipe[0], lambda found: len(found) > 4096 * 50)
        handler.emit(record("back again"))
        text += read_until(pipe[0], lambda found: b"back again" in found)
        handler.close()
    assert b"back again (" in text
    assert b"lines before this one were left out)" in text


def read_until(descriptor: int, enough: object) -> bytes:
    assert callable(enough)
    found = b""
    deadline = time.monotonic() + PATIENCE
    while not enough(found):
        assert time.monotonic() < deadline
        try:
            found += os.read(descriptor, 65536)
        except BlockingIOError:
            time.sleep(0.01)
    return found


def test_what_could_steer_a_terminal_is_shown_instead(pipe: tuple[int, int]) -> None:
    with os.fdopen(pipe[1], "w") as stream:
        handler = QueuedHandler(stream)
        handler.emit(record("a\x1b[31mb\rc\x9bd\te\nf \u00e9"))
        handler.close()
    assert os.read(pipe[0], 65536).decode() == "a\\x1b[31mb\\x0dc\\x9bd\te\nf \u00e9\n"
