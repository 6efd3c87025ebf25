"""Signs of life: one call renews every lease, long before the first of them runs out."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from jobqueued import clock
from jobqueued.client.calls import reader
from jobqueued.client.errors import ClientError
from jobqueued.client.link import Link
from jobqueued.client.models import LeaseState, LeaseStates
from jobqueued.client.patience import Backoff
from jobqueued.worker.held import Held, StopReason

MOST = 1000
"""Leases in one call."""
NEWS_SECONDS = 0.1
"""Progress is sent at once, or this much later when there is a lot of it."""
EARLY = 0.25
"""A lease that would be due within this part of its time is renewed with the others."""

log = logging.getLogger("jobqueued.worker")
_read = reader(LeaseStates)


class Pulse:
    """Keeps the leases in `held` alive, and ends those that are not."""

    def __init__(self, link: Link, held: dict[str, Held], lease: float | None) -> None:
        self._link = link
        self._held = held
        self._lease = lease
        self._backoff = Backoff()
        self._wake = asyncio.Event()
        self._wakes_at = math.inf
        self._not_before = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._wake.clear()
            now = clock.monotonic()
            self._end_expired(now)
            due = self._due(now)
            if due:
                await self._beat(due)
            else:
                await self._sleep_until(self._next(now))

    def added(self, held: Held) -> None:
        """One more to keep alive."""
        if held.beat_at < self._wakes_at:
            self._wake.set()

    def wake(self) -> None:
        """There is something to tell."""
        self._wake.set()

    def _end_expired(self, now: float) -> None:
        for held in [one for one in self._held.values() if one.expires_at <= now]:
            self._lose(held)

    def _due(self, now: float) -> list[Held]:
        if now < self._not_before:
            return []
        every = self._held.values()
        if any(held.beat_at <= now for held in every):
            early = (held for held in every if held.beat_at - now <= _early(held, now))
            return sorted(early, key=lambda held: held.beat_at)[:MOST]
        return [held for held in every if held.has_news][:MOST]

    def _next(self, now: float) -> float:
        """The next moment something has to be done; a lease may run out during a pause."""
        every = self._held.values()
        beat = min((held.beat_at for held in every), default=math.inf)
        if any(held.has_news for held in every):
            beat = now
        expiry = min((held.expires_at for held in every), default=math.inf)
        return min(max(beat, self._not_before), expiry)

    async def _sleep_until(self, moment: float) -> None:
        self._wakes_at = moment
        try:
            pause = moment - clock.monotonic()
            async with asyncio.timeout(None if math.isinf(pause) else max(pause, 0.0)):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._wakes_at = math.inf

    async def _beat(self, due: list[Held]) -> None:
        beats = [self._entry(held) for held in due]
        body = msgspec.json.encode({"leases": beats})
        try:
            answer = _read(await self._link.exchange("POST", "/leases/heartbeat", body, 0.0))
        except ClientError as error:
            _take_back(due, beats)
            pause = self._backoff.after(error)
            log.warning("no heartbeat, trying again in %.1f s: %s", pause, error)
            self._not_before = clock.monotonic() + pause
            return
        self._backoff.reset()
        now = clock.monotonic()
        self._not_before = now + NEWS_SECONDS
        for state in answer.leases:
            self._heard(state, now)

    def _entry(self, held: Held) -> dict[str, Any]:
        entry: dict[str, Any] = {"token": held.token}
        extend = held.extend or self._lease
        if extend is not None:
            entry["extend_seconds"] = extend
        if held.progress is not None:
            entry["progress"] = {"percent": held.progress[0], "message": held.progress[1]}
        held.progress = held.extend = None
        return entry

    def _heard(self, state: LeaseState, now: float) -> None:
        held = self._held.get(state.token)
        if held is None:
            return
        if state.status == "stale" or state.expires_in_seconds is None:
            self._lose(held)
            return
        held.renewed(state.expires_in_seconds, now)
        if state.status == "cancelled":
            held.stop(StopReason.CANCELLED)

    def _lose(self, held: Held) -> None:
        log.warning(
            "job %s attempt %d is no longer ours: %s",
            held.job.id, held.job.attempt, StopReason.LOST,
        )  # fmt: skip
        del self._held[held.token]
        held.stop(StopReason.LOST)


def _early(held: Held, now: float) -> float:
    return max(0.0, (held.expires_at - now) * EARLY)


def _take_back(due: Iterable[Held], beats: Iterable[dict[str, Any]]) -> None:
    """What was not heard is said again, unless there is something newer to say."""
    for held, beat in zip(due, beats, strict=True):
        told = beat.get("progress")
        if told is not None and held.progress is None:
            held.progress = (told["percent"], told["message"])
