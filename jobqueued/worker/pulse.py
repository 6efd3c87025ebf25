"""Signs of life: one call renews every lease, long before the first of them runs out."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from jobqueued import clock
from jobqueued.client.calls import reader
from jobqueued.client.errors import ClientError
from jobqueued.client.link import Link
from jobqueued.client.models import LeaseState, LeaseStates
from jobqueued.client.patience import Backoff
from jobqueued.worker.held import BEATS_IN_A_LEASE, Held, StopReason

MOST = 1000
"""Leases in one call."""
NEWS_SECONDS = 0.1
"""Progress is sent at once, or this much later when there is a lot of it."""
OVERSLEPT = 0.25
"""Seconds; who wakes up that late was stopped, and does not know what happened meanwhile."""
WATCH_SECONDS = 1.0
EARLY = 0.25
"""A lease that would be due within this part of its time is renewed with the others."""

log = logging.getLogger("jobqueued.worker")
_read = reader(LeaseStates)


class Pulse:
    """Keeps the leases in `held` alive, and stops the handlers of those that are not."""

    def __init__(self, link: Link, held: dict[str, Held], lease: float | None) -> None:
        self._link = link
        self._held = held
        self._lease = lease
        self._backoff = Backoff()
        self._wake = asyncio.Event()
        self._wakes_at = math.inf
        self._not_before = 0.0
        self._asking: asyncio.Task[None] | None = None
        """The heartbeat that waits for its answer."""

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                self._wake.clear()
                self._work(clock.monotonic())
                await self._sleep_until(self._next(clock.monotonic()))
        finally:
            if self._asking is not None:
                self._asking.cancel()

    def added(self, held: Held) -> None:
        """One more to keep alive."""
        if held.beat_at < self._wakes_at:
            self._wake.set()

    def wake(self) -> None:
        """There is something to tell."""
        self._wake.set()

    def _work(self, now: float) -> None:
        overslept = now - self._wakes_at > OVERSLEPT
        self._wakes_at = math.inf
        if self._asking is not None and self._asking.done():
            self._asking.result()
            self._asking = None
        due = self._due(now) if self._asking is None else []
        if due:
            self._asking = asyncio.create_task(self._beat(due), name="heartbeat")
            self._asking.add_done_callback(lambda _: self._wake.set())
        if overslept or not self._may_trust():
            self._stop_expired(now)

    def _may_trust(self) -> bool:
        """Whether a lease that ran out while we asked for it may still be ours.

        A daemon on this machine that does not answer gives the job to nobody else, and listens
        before it does. From elsewhere the silence may be that of the network.
        """
        return self._asking is not None and self._link.addresses[0].is_here

    def _stop_expired(self, now: float) -> None:
        """Somebody else may run these soon; what has an outcome already may still be in time."""
        for held in self._alive():
            if held.report is None and held.expires_at <= now:
                _log_loss(held)
                held.stop(StopReason.LOST)

    def _alive(self) -> list[Held]:
        """Those whose lease is worth renewing."""
        return [held for held in self._held.values() if held.stopped is not StopReason.LOST]

    def _due(self, now: float) -> list[Held]:
        if now < self._not_before:
            return []
        every = self._alive()
        if any(held.beat_at <= now for held in every):
            early = (held for held in every if held.beat_at - now <= _early(held, now))
            return sorted(early, key=lambda held: held.beat_at)[:MOST]
        return [held for held in every if held.has_news][:MOST]

    def _next(self, now: float) -> float:
        """The next moment something has to be done; a lease may run out during a pause."""
        every = self._alive()
        ends = [held.expires_at for held in every if held.report is None]
        moments = [max(end, now + WATCH_SECONDS) if end <= now else end for end in ends]
        if self._asking is None:
            beats = [now if held.has_news else held.beat_at for held in every]
            moments += [max(beat, self._not_before) for beat in beats]
        return min(moments, default=math.inf)

    async def _sleep_until(self, moment: float) -> None:
        self._wakes_at = moment
        pause = moment - clock.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(pause) else max(pause, 0.0)):
                await self._wake.wait()

    async def _beat(self, due: list[Held]) -> None:
        beats = [self._entry(held) for held in due]
        body = msgspec.json.encode({"leases": beats})
        asked_at = clock.monotonic()
        try:
            answer = _read(await self._link.exchange("POST", "/leases/heartbeat", body, 0.0))
        except ClientError as error:
            _take_back(due, beats)
            pause = self._pause_after(error)
            log.warning("no heartbeat, trying again in %.1f s: %s", pause, error)
            self._not_before = clock.monotonic() + pause
            return
        self._backoff.reset()
        now = clock.monotonic()
        for state in answer.leases:
            self._heard(state, asked_at, now)
        # Where the answer took longer than the lease, it is not sure: ask again at once.
        is_unsure = any(held.report is None and held.expires_at <= now for held in self._alive())
        self._not_before = now if is_unsure else now + NEWS_SECONDS

    def _pause_after(self, error: ClientError) -> float:
        """As for every call, but while a lease runs it is tried again before that is over."""
        now = clock.monotonic()
        left = [held.expires_at - now for held in self._held.values() if held.expires_at > now]
        most = max(min(left, default=math.inf) / BEATS_IN_A_LEASE, NEWS_SECONDS)
        return min(self._backoff.after(error), most)

    def _entry(self, held: Held) -> dict[str, Any]:
        entry: dict[str, Any] = {"token": held.token}
        extend = held.extend or self._lease
        if extend is not None:
            entry["extend_seconds"] = extend
        if held.progress is not None:
            entry["progress"] = {"percent": held.progress[0], "message": held.progress[1]}
        held.progress = held.extend = None
        return entry

    def _heard(self, state: LeaseState, asked_at: float, now: float) -> None:
        held = self._held.get(state.token)
        if held is None:
            return
        seconds = state.expires_in_seconds
        if state.status == "stale" or seconds is None:
            self._lose(held)
            return
        held.renewed(asked_at + seconds, now)
        if seconds <= 0 and held.report is None:
            # The time of the attempt is up.
            self._lose(held)
        if state.status == "cancelled":
            held.stop(StopReason.CANCELLED)

    def _lose(self, held: Held) -> None:
        del self._held[held.token]
        if held.stopped is not StopReason.LOST:
            _log_loss(held)
            held.stop(StopReason.LOST)


def _log_loss(held: Held) -> None:
    log.warning(
        "job %s attempt %d is no longer ours: %s", held.job.id, held.job.attempt, StopReason.LOST
    )


def _early(held: Held, now: float) -> float:
    return max(0.0, (held.expires_at - now) * EARLY)


def _take_back(due: Iterable[Held], beats: Iterable[dict[str, Any]]) -> None:
    """What was not heard is said again, unless there is something newer to say."""
    for held, beat in zip(due, beats, strict=True):
        told = beat.get("progress")
        if told is not None and held.progress is None:
            held.progress = (told["percent"], told["message"])
