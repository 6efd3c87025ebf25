"""Remote workers: they ask for jobs, show life, and report what became of them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobqueued import clock
from jobqueued.engine.parts import Shared
from jobqueued.engine.settle import Settler
from jobqueued.model.errors import DiskFull, Draining, StoreLocked
from jobqueued.model.job import Claimed, Held, Progress
from jobqueued.model.outcome import DAMAGED_PAYLOAD, Outcome, OutcomeKind
from jobqueued.model.submission import Beat, BeatAnswer, Poll, Report
from jobqueued.store.interface import Ask

if TYPE_CHECKING:
    from jobqueued.engine.dispatcher import OpenTypes
log = logging.getLogger("jobqueued.engine")

_ANSWER_SECONDS = 5.0
"""For those who do not want to wait: how long finding out may take."""
_DISK_SECONDS = 1.0
"""How long a sign of life waits for the disk before it is answered."""
_LEASE_WITHOUT_TYPE = 60_000
"""What a job is extended by whose type is gone from the configuration; it may still end well."""


@dataclass(slots=True)
class Poller:
    """A remote worker that waits for jobs: to the dispatcher a pool like any other."""

    pool: str
    poll: Poll
    answer: asyncio.Future[list[Claimed]]
    is_asked_for: bool = False
    """Whether jobs are being claimed for it."""

    @property
    def given(self) -> list[Claimed]:
        """What came in the very moment in which the waiting ended."""
        arrived = self.answer.done() and not self.answer.cancelled()
        return self.answer.result() if arrived else []

    def give(self, jobs: list[Claimed]) -> bool:
        """Answer; False when nobody waits any more."""
        if self.answer.done():
            return False
        self.answer.set_result(jobs)
        return True


class Remote:
    """Everything that workers on the other side of HTTP can ask for."""

    def __init__(self, shared: Shared, settler: Settler) -> None:
        self._shared = shared
        self._settler = settler
        self._numbers = itertools.count(1)
        self._pollers: dict[str, Poller] = {}
        self._wanted: Counter[str] = Counter()
        """How many workers wait for jobs of each type."""
        self._turns = 0
        self._unclaimed: list[Claimed] = []
        """Claimed for somebody who had hung up by then."""
        self._writing: set[asyncio.Task[dict[str, int]]] = set()
        """Signs of life on their way to the disk."""

    def __len__(self) -> int:
        return len(self._pollers)

    def waits_for(self, job_type: str) -> bool:
        """Whether any worker waits for jobs of a type."""
        return self._wanted[job_type] > 0

    async def lease(self, poll: Poll) -> list[Claimed]:
        """Jobs for a worker: at once when there are any, else when they come."""
        if self._shared.draining:
            raise Draining("the daemon is shutting down; ask again when it is back")
        poller = Poller(
            f"remote-{next(self._numbers)}", poll, asyncio.get_running_loop().create_future()
        )
        self._pollers[poller.pool] = poller
        self._wanted.update(poll.types)
        self._shared.dispatcher.wake()
        try:
            async with asyncio.timeout(poll.wait / 1000 or _ANSWER_SECONDS):
                return await poller.answer
        except TimeoutError:
            return poller.given
        except asyncio.CancelledError:
            self.hand_back(poller.given)
            raise
        finally:
            del self._pollers[poller.pool]
            self._wanted.subtract(poll.types)
            poller.answer.cancel()

    def hand_back(self, jobs: Sequence[Claimed]) -> None:
        """These reached nobody: they run again at once, and it is no failure."""
        self._unclaimed += jobs
        self._shared.dispatcher.wake()

    def dismiss(self) -> None:
        """Nothing more will be claimed: let everybody go."""
        for poller in self._pollers.values():
            poller.give([])

    def asks(self, open_types: OpenTypes) -> list[Ask]:
        """What the waiting workers could be given."""
        asks = self.planned(open_types)
        for ask in asks:
            self._pollers[ask.pool].is_asked_for = True
        for poller in self._pollers.values():
            if not (poller.is_asked_for or poller.poll.wait):
                poller.give([])
        return asks

    def planned(self, open_types: OpenTypes) -> list[Ask]:
        """The same, and nobody is asked for yet."""
        asks = []
        for pool, poller in self._pollers.items():
            if poller.is_asked_for or poller.answer.done():
                continue
            poll = poller.poll
            found = open_types.rooms(self._remote(poll.types), poll.lease)
            if found:
                workers = (poll.worker,) * poll.most
                asks.append(Ask(pool, workers, found, self._turns, "remote"))
        return asks

    def _remote(self, names: Sequence[str]) -> list[str]:
        """Those still run by remote workers: a reload may have come since they were asked for."""
        types = self._shared.config.types
        return [name for name in names if name in types and types[name].handler.kind == "remote"]

    def release(self, asks: Sequence[Ask]) -> None:
        """The claim is over: who waits on can be asked for again."""
        for ask in asks:
            if ask.pool in self._pollers:
                self._pollers[ask.pool].is_asked_for = False

    def deliver(self, asks: Sequence[Ask], claimed: Sequence[Claimed]) -> None:
        """Give every asking worker what was claimed for it."""
        found: defaultdict[str, list[Claimed]] = defaultdict(list)
        for job in claimed:
            found[job.pool].append(job)
            self._shared.changes.notify(job.lease.job_id)
            if job.job is not None and job.job.lease_expires_at is not None:
                self._begin(job, job.job.lease_expires_at)
        self._turns += len(claimed)
        for ask in asks:
            self._answer(ask.pool, found[ask.pool])

    def _begin(self, job: Claimed, expires_at: int) -> None:
        job_type = self._shared.config.types.get(job.type)
        lease = expires_at - job.started_at
        timeout = lease if job_type is None else job_type.timeout
        self._shared.deadlines.begin(job.lease.token, lease, timeout)
        self._shared.reaper.wake_at(expires_at)

    def _answer(self, pool: str, jobs: list[Claimed]) -> None:
        poller = self._pollers.get(pool)
        whole = [job for job in jobs if job.payload_intact]
        wanted = poller is not None and (whole or not poller.poll.wait)
        if not (poller is not None and wanted and poller.give(whole)):
            self._unclaimed += whole
        self._unclaimed += [job for job in jobs if not job.payload_intact]

    async def take_back(self) -> None:
        """End the attempts of jobs that reached nobody."""
        jobs, self._unclaimed = self._unclaimed, []
        if jobs:
            await self._settler.settle([(job, _undelivered(job)) for job in jobs])

    async def heartbeat(self, beats: Sequence[Beat]) -> list[BeatAnswer]:
        """Extend leases and note progress."""
        found = await self._shared.store.held_under([beat.token for beat in beats])
        held = {job.lease.token: job for job in found if job is not None}
        alive: dict[str, int] = {}
        for beat in beats:
            job = held.get(beat.token)
            if job is None:
                self._shared.deadlines.forget(beat.token)
            elif (length := self._extend(job, beat.extend)) is not None:
                alive[beat.token] = length
        told = [(beat, held[beat.token]) for beat in beats if beat.token in alive]
        sure = await self._write(told, alive) if told else {}
        return [_answer_beat(beat, held.get(beat.token), sure.get(beat.token)) for beat in beats]

    async def _write(self, told: list[tuple[Beat, Held]], alive: dict[str, int]) -> dict[str, int]:
        """Put signs of life on disk; for how long each lease now runs, of those still held.

        A full or slow disk must not take a job from a worker that lives: leases are known here, and
        the next daemon waits as long for every worker as the leases of its type run.
        """
        if not self._shared.store.disk_full:
            writing = asyncio.create_task(self._put_on_disk(told, alive), name="heartbeat")
            self._writing.add(writing)
            writing.add_done_callback(self._written)
            if (await asyncio.wait({writing}, timeout=_DISK_SECONDS))[0]:
                return writing.result()
        return {
            beat.token: min(alive[beat.token], self._lengths(job, None)[0]) for beat, job in told
        }

    def _written(self, writing: asyncio.Task[dict[str, int]]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and (error := writing.exception()) is not None:
            log.warning("signs of life are not on disk: %s", error)

    async def _put_on_disk(
        self, told: list[tuple[Beat, Held]], alive: dict[str, int]
    ) -> dict[str, int]:
        store, sure = self._shared.store, {}
        moments = [clock.now() + alive[beat.token] for beat, _ in told]
        extended = await store.extend([job.lease for _, job in told], moments)
        for (beat, job), still_held in zip(told, extended, strict=True):
            if not still_held:
                self._shared.deadlines.forget(beat.token)
                continue
            sure[beat.token] = alive[beat.token]
            if beat.percent is not None:
                with suppress(DiskFull, StoreLocked):
                    await store.report_progress(job.lease, Progress(beat.percent, beat.message))
        return sure

    def adopt(self, held: Held) -> None:
        """A job that a worker has from an earlier daemon."""
        self._shared.deadlines.adopt(held.lease.token, *self._lengths(held, None))

    def _extend(self, held: Held, extend: int | None) -> int | None:
        """For how long a lease runs from now; None when it comes too late."""
        return self._shared.deadlines.extend(held.lease.token, *self._lengths(held, extend))

    def _lengths(self, held: Held, extend: int | None) -> tuple[int, int]:
        """How long a lease should run, and how long at most: till the time of the attempt is up."""
        job_type = self._shared.config.types.get(held.type)
        if job_type is None:
            lease = extend or _LEASE_WITHOUT_TYPE
            return lease, lease
        left = min(held.started_at + job_type.timeout - clock.now(), job_type.timeout)
        return extend or job_type.lease, left

    async def report(self, reports: Sequence[Report]) -> list[bool]:
        """End attempts; False where the lease was lost and nothing was changed."""
        found = await self._shared.store.held_under([report.token for report in reports])
        ended = [
            (job, report.outcome)
            for job, report in zip(found, reports, strict=True)
            if job is not None
        ]
        self._shared.meter.count("stale_outcomes", len(reports) - len(ended))
        recorded = iter(await self._settler.settle(ended))
        return [job is not None and next(recorded) for job in found]


def _answer_beat(beat: Beat, held: Held | None, length: int | None) -> BeatAnswer:
    if held is None or length is None:
        return BeatAnswer(beat.token, "stale", None)
    status = "cancelled" if held.cancel_requested else "ok"
    return BeatAnswer(beat.token, status, clock.now() + length, length)


def _undelivered(job: Claimed) -> Outcome:
    if job.payload_intact:
        error = "the worker hung up before it had the job"
        return Outcome(kind=OutcomeKind.INTERRUPTED, error=error)
    return DAMAGED_PAYLOAD
