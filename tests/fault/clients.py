"""Clients that submit, repeat, cancel and look, and note honestly what they know."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import aiohttp

from tests.fault.daemon import FaultDaemon, talk
from tests.fault.history import (
    Answer,
    Cancellation,
    History,
    Moment,
    Sighting,
    Submission,
    Wanted,
)
from tests.fault.limits import KEYS, MOST_OF_KEY

TYPES = {"command": 3, "single": 1, "function": 4, "webhook": 4, "remote": 4}
"""How often each is chosen."""
NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""A reset, a timeout, half an answer: what became of the call is not known."""


class Client:
    """One client: makes calls one after the other, and remembers what it asked for."""

    def __init__(
        self,
        name: str,
        daemon: FaultDaemon,
        seed: str,
        pause: float,
        kinds: Mapping[str, int] = TYPES,
    ) -> None:
        self._kinds = kinds
        self._name = name
        self._daemon = daemon
        self._history: History = daemon.history
        self._chance = random.Random(f"{seed}-{name}")
        self._pause = pause
        self._count = 0
        self._own: deque[str] = deque(maxlen=20)
        self._keyed: deque[Wanted] = deque(maxlen=20)

    async def run(self, stop: asyncio.Event) -> None:
        """Make calls until told to stop."""
        async with talk(self._daemon) as session:
            while not stop.is_set():
                await self._one_call(session)
                await asyncio.sleep(self._chance.uniform(0, 2 * self._pause))

    async def _one_call(self, session: aiohttp.ClientSession) -> None:
        turn = self._chance.random()
        if turn < 0.55 or not self._own:
            await self.submit(session, [self.new_job()])
        elif turn < 0.7:
            jobs = [self.new_job() for _ in range(self._chance.randint(2, 6))]
            await self.submit(session, jobs, batch=True)
        elif turn < 0.8 and self._keyed:
            await self.submit(session, [self._chance.choice(self._keyed)])
        elif turn < 0.9:
            await self.cancel(session, self._chance.choice(self._own))
        else:
            await self.look(session, self._chance.choice(self._own))

    def new_job(self, kind: str | None = None, /, **fields: Any) -> Wanted:
        """A job that nobody has asked for yet, of any type, with these fields of payload."""
        chance = self._chance
        number = self._next_number()
        if kind is None:
            (kind,) = chance.choices(list(self._kinds), list(self._kinds.values()))
        wanted = Wanted(number, kind, self._payload(number) | fields)
        if kind in MOST_OF_KEY and chance.random() < 0.8:
            wanted.line = chance.choice(KEYS)
        if kind == "breaking" and chance.random() < 0.4:
            wanted.payload["failures"] = chance.choice([1, 2])
        if chance.random() < 0.5:
            wanted.key = f"key-{number}"
            self._keyed.append(wanted)
        if chance.random() < 0.15:
            wanted.delay = round(chance.uniform(0.05, 0.8), 3)
        if chance.random() < 0.05:
            wanted.expires = round(wanted.delay + chance.uniform(0.05, 1), 3)
        if chance.random() < 0.3:
            wanted.priority = chance.randint(0, 9)
        if chance.random() < 0.1:
            wanted.max_retries = chance.randint(0, 2)
        return wanted

    def plain_job(self, kind: str, **fields: Any) -> Wanted:
        """A job that succeeds at once and has nothing special, but for these fields of payload."""
        number = self._next_number()
        plain = {"seconds": 0, "failures": 0, "fatal": False, "stubborn": False}
        return Wanted(number, kind, {"number": number} | plain | fields)

    def _next_number(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _payload(self, number: str) -> dict[str, Any]:
        chance, turn = self._chance, self._chance.random()
        return {
            "number": number,
            "seconds": round(chance.uniform(0.1, 0.4) if turn < 0.1 else chance.random() / 50, 4),
            "failures": 99 if 0.1 < turn < 0.13 else chance.choice([1, 1, 2]) if turn > 0.9 else 0,
            "fatal": turn > 0.98,
            "stubborn": False,
            "padding": chance.choice(["", "ü" * chance.randint(1, 2000)]),
        }

    async def submit(
        self, session: aiohttp.ClientSession, jobs: list[Wanted], *, batch: bool = False
    ) -> Submission:
        """Submit; what has a key is sent again until it is known what became of it."""
        submission = await self._submit_once(session, jobs, batch)
        for _ in range(3):
            if submission.answer is not Answer.UNKNOWN or any(job.key is None for job in jobs):
                break
            await asyncio.sleep(0.05)
            submission = await self._submit_once(session, jobs, batch)
        if submission.answer is Answer.UNKNOWN:
            await asyncio.sleep(0.05)
        return submission

    async def _submit_once(
        self, session: aiohttp.ClientSession, jobs: list[Wanted], batch: bool
    ) -> Submission:
        submission = Submission(jobs, Moment.now())
        self._history.submissions.append(submission)
        documents = [job.document() for job in jobs]
        path, body = ("/jobs/batch", {"jobs": documents}) if batch else ("/jobs", documents[0])
        status, document = await _post(session, path, body)
        submission.status, submission.answered = status, Moment.now()
        submission.answer = _answer(status)
        if submission.answer is Answer.OK:
            found = document["jobs"] if batch else [document]
            submission.ids = [job["id"] for job in found]
            self._own.extend(submission.ids)
        return submission

    async def cancel(self, session: aiohttp.ClientSession, job_id: str) -> None:
        """Cancel a job, wherever it is."""
        cancellation = Cancellation(job_id, Moment.now())
        self._history.cancellations.append(cancellation)
        status, document = await _post(session, f"/jobs/{job_id}/cancel", None)
        cancellation.answer, cancellation.answered = _answer(status), Moment.now()
        cancellation.status = status
        if cancellation.answer is Answer.OK:
            cancellation.job_status = document["status"]

    async def look(self, session: aiohttp.ClientSession, job_id: str) -> None:
        """See how far a job is, after waiting a moment for its end."""
        try:
            async with session.get(f"/jobs/{job_id}", params={"wait": "0.3"}) as reply:
                status, job = reply.status, await reply.json(content_type=None)
        except NO_ANSWER:
            return
        if status == 200:
            seen = Sighting(job_id, job["status"], job["attempt"], Moment.now())
            self._history.sightings.append(seen)
        elif status == 404:
            seen = Sighting(job_id, "missing", 0, Moment.now())
            self._history.sightings.append(seen)


def _answer(status: int | None) -> Answer:
    if status is not None and status < 300:
        return Answer.OK
    if status is not None and 400 <= status < 500:
        return Answer.FAIL
    return Answer.UNKNOWN


async def _post(
    session: aiohttp.ClientSession, path: str, document: Mapping[str, Any] | None
) -> tuple[int | None, Any]:
    """Status and document; None when there was no whole answer."""
    try:
        async with session.post(path, json=document) as reply:
            return reply.status, await reply.json(content_type=None)
    except NO_ANSWER:
        return None, None


class Clients:
    """Several clients at the same time."""

    def __init__(self, daemon: FaultDaemon, seed: str, number: int, pause: float) -> None:
        self._stop = asyncio.Event()
        self.kinds = dict(TYPES)
        self._clients = [Client(str(one), daemon, seed, pause, self.kinds) for one in range(number)]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._stop.clear()
        self._tasks = [asyncio.create_task(client.run(self._stop)) for client in self._clients]

    async def stop(self) -> None:
        """Let every call under way come to its end; raises what went wrong in a client."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        self._tasks = []

    async def abandon(self) -> None:
        """Drop whatever is under way: nobody will look at the history."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
