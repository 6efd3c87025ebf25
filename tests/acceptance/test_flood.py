"""A flood without end: whoever keeps thousands of urgent jobs waiting starves nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobqueued.store.sqlite.claims import GUARD_EVERY
from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import PATIENCE, until

CONFIG = """
[pools.default]
workers = 2
[types.note]
python = "noting:note"
python_path = ["{place}"]
"""
NOTING = """
import os
def note(payload):
    file = os.open(payload["path"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{payload['priority']}\\n".encode())
    os.close(file)
"""
BACKLOG = 2_000
BATCH = 100
PATIENT = 30
"""Jobs of the lowest priority."""
LEEWAY = 5
"""Starts by which the record may differ from the order of the claims: two run at a time."""


def submit(serving: Serving, priority: int, number: int) -> None:
    payload = {"path": str(record(serving)), "priority": priority}
    jobs = [{"type": "note", "priority": priority, "payload": payload}] * number
    assert serving.post("/jobs/batch", {"jobs": jobs}).status == 201


def record(serving: Serving) -> Path:
    return serving.place / "record"


def started(serving: Serving) -> list[int]:
    """The priorities of all that started, in order."""
    path = record(serving)
    return [int(word) for word in path.read_text().split()] if path.exists() else []


@contextmanager
def flood(serving: Serving) -> Iterator[None]:
    """Thousands wait at priority 9, and somebody sees to it that they never become fewer."""
    over = threading.Event()

    def is_wanting() -> bool:
        return over.is_set() or serving.type_counts("note").get("pending", 0) < 2 * BACKLOG

    def go_on() -> None:
        while not over.is_set():
            submit(serving, 9, BATCH)
            until(is_wanting)

    for _ in range(BACKLOG // BATCH):
        submit(serving, 9, BATCH)
    until(lambda: started(serving))
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)


@pytest.fixture
def serving(prepare: Serve) -> Serving:
    made = prepare(CONFIG)
    (made.place / "noting.py").write_text(NOTING)
    return made.start()


def test_the_lowest_priority_has_its_share_of_a_flood_that_began_before(serving: Serving) -> None:
    with flood(serving):
        submit(serving, 0, PATIENT)
        before = len(started(serving))
        until(lambda: started(serving).count(0) == PATIENT)
        order = started(serving)
        assert serving.type_counts("note")["pending"] > BACKLOG / 2
    places = [place - before for place, priority in enumerate(order) if priority == 0]
    for number, place in enumerate(places, start=1):
        assert place <= number * GUARD_EVERY + LEEWAY, places
    assert places[-1] >= (PATIENT - 2) * GUARD_EVERY - LEEWAY, places
