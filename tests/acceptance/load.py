"""Submitters that never stop asking, and the notes of the handlers that did the work."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.support import Serving
from tests.api.support import until

RECORDING = """
[types.record]
command = ["{python}", "-I", "-S", "{root}/tests/acceptance/handlers/recording.py", "{place}"]
max_retries = 20
backoff = { base = "50ms", factor = 1.0, jitter = "50ms" }
kill_grace = "200ms"
"""
SUBMITTERS = 12
LONGEST_SECONDS = 0.3


class Note(NamedTuple):
    """What a handler said: `start`, `end` or `overlap`."""

    word: str
    job_id: str
    attempt: int
    at: float


def prepare_notes(place: Path) -> None:
    (place / "locks").mkdir()
    (place / "notes").touch()


def read_notes(place: Path) -> list[Note]:
    lines = (place / "notes").read_text().splitlines()
    return [_note(*line.split()) for line in lines]


def _note(word: str, job_id: str, attempt: str, at: str) -> Note:
    return Note(word, job_id, int(attempt), float(at))


def unfinished(notes: list[Note]) -> dict[str, int]:
    """Jobs whose last attempt has not said that it ended, with its number."""
    last = {note.job_id: note for note in notes}
    return {job_id: note.attempt for job_id, note in last.items() if note.word != "end"}


def started_after(place: Path, job_id: str, attempt: int) -> float | None:
    """When the first attempt after this one was started."""
    later = [
        note.at
        for note in read_notes(place)
        if note.word == "start" and note.job_id == job_id and note.attempt > attempt
    ]
    return min(later, default=None)


class Submitters:
    """Each submits a job, waits a moment for its end, and submits the next.

    A submission that got no answer is sent again under the same key until one comes.
    """

    def __init__(self, serving: Serving) -> None:
        self.acknowledged: dict[str, str] = {}
        """Ids by idempotency key."""
        self.refusals: list[int] = []
        """Statuses of submissions that were answered with an error."""
        self._serving = serving
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._submit_forever, args=(number,))
            for number in range(SUBMITTERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _submit_forever(self, number: int) -> None:
        chance = random.Random(number)
        for count in itertools.count():
            if self._stop.is_set():
                return
            # Also when all is about to stop: what may be stored has to be known.
            until(partial(self._submit, f"{number}-{count}", chance.uniform(0, LONGEST_SECONDS)))

    def _submit(self, key: str, seconds: float) -> bool:
        """Whether it was acknowledged."""
        document = {"type": "record", "payload": {"seconds": seconds}, "idempotency_key": key}
        try:
            reply = self._serving.post("/jobs", document)
            if reply.status not in (200, 201):
                self.refusals.append(reply.status)
                return False
            self.acknowledged[key] = reply.document["id"]
            self._serving.ask("GET", f"/jobs/{reply.document['id']}?wait=1")
        except (OSError, HTTPException, json.JSONDecodeError):
            # It may be stored or not: only the same key again can tell.
            return key in self.acknowledged
        return True


@contextmanager
def under_load(serving: Serving) -> Iterator[Submitters]:
    """Submitters at work around the block."""
    submitters = Submitters(serving)
    submitters.start()
    try:
        yield submitters
    finally:
        submitters.stop()
