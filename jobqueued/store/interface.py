"""What the engine asks of a store: verbs that move whole jobs from state to state."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from jobqueued.model.change import Act, Change, Found, Replay
from jobqueued.model.control import Control, Room
from jobqueued.model.errors import StoreError
from jobqueued.model.job import Attempt, Batch, Claimed, Held, Job, Lease, Progress, Status
from jobqueued.model.outcome import Outcome
from jobqueued.model.retry import Next
from jobqueued.model.submission import JobPage, JobQuery, Submitted

Key = tuple[str, str | None, str]
"""The type, tenant and `key` that some jobs have in common."""


class KeyQueue(msgspec.Struct, frozen=True):
    """Whom of its key a job waits for: some of those that run, and how many go before it."""

    key: str
    running: int
    running_ids: tuple[str, ...]
    ahead: int
    more: bool
    """Whether there are more than `ahead`."""


class Counted(msgspec.Struct, frozen=True):
    """How many there are, or that there are `more` than that."""

    number: int
    more: bool = False


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job stands. Counts end at a bound, which is `Counted.more`."""

    job: Job
    is_next: bool
    """Whether those who ask would be given it."""
    ahead: Counted
    """How many of its type and priority go before it."""
    running_ids: tuple[str, ...]
    """Some of those of its type that run."""
    key_queue: KeyQueue | None
    """None where it waits for nobody of its key."""


class Ask(msgspec.Struct, frozen=True):
    """A pool's wish for work: its idle workers and the types that have room.

    Asks that name the same type share its room. `holder` is `daemon` or `remote`.
    """

    pool: str
    workers: Sequence[str]
    rooms: Mapping[str, Room]
    turn: int
    holder: str = "daemon"


class Settlement(msgspec.Struct, frozen=True):
    """The end of one attempt: what happened and what comes next."""

    lease: Lease
    outcome: Outcome
    next: Next
    at: int


class Retained(msgspec.Struct, frozen=True):
    """How long finished jobs stay, in milliseconds, by status."""

    keep: Mapping[str, int]
    idempotency_window: int


class Cleared(msgspec.Struct, frozen=True):
    """How many jobs or pages went at once, and for how many seconds that held up other writes."""

    number: int
    seconds: float


class Holdings(msgspec.Struct, frozen=True):
    """What the store holds beside what the counts tell."""

    free_bytes: int
    oldest_finished: Mapping[str, int]
    next_outlived: int | None


class Counts(Protocol):
    """How many jobs there are, known without a query."""

    def by_type(self) -> dict[str, dict[str, int]]:
        """Counts by type, then by status."""

    def by_status(self) -> dict[str, int]:
        """Counts by status over all types."""

    def of(self, job_type: str, status: str) -> int:
        """Jobs of one type in one status."""

    def better_than(self, job_type: str, priority: int) -> int:
        """Pending jobs of one type that have a higher priority."""

    @property
    def waiting(self) -> int:
        """Jobs that are scheduled, pending or retrying."""


class Store(Protocol):
    """Every verb is one transaction; what it returns is on disk."""

    @property
    def counts(self) -> Counts:
        """Exact as of the last commit."""

    @property
    def controls(self) -> Mapping[str, Control]:
        """What holds types, as of the last commit; those with nothing on disk are left out."""

    @property
    def disk_full(self) -> bool:
        """Whether submissions are refused until there is space again."""

    @property
    def locked(self) -> bool:
        """Whether another program keeps us from writing."""

    @property
    def failed(self) -> asyncio.Future[StoreError]:
        """Done when the store has stopped because what is on disk is no longer known."""

    @property
    def busy_since(self) -> float | None:
        """Since when a write is under way, for the watchdog."""

    @property
    def commits(self) -> int:
        """How many transactions there have been."""

    @property
    def last_place(self) -> int:
        """The row number of the newest job at the start; new ones come after it."""

    def figures(self) -> dict[str, object]:
        """Sizes, durability and commits, for `jobqueued status`."""

    async def submit(
        self, jobs: Sequence[Job], *, batch_id: str | None, window: int
    ) -> list[Submitted]:
        """Put all jobs on disk, or none; a used idempotency key gives the job that has it."""

    async def job(self, job_id: str) -> Job | None:
        """One job."""

    async def jobs(self, query: JobQuery) -> JobPage:
        """A page of jobs, newest first."""

    async def batch(self, batch_id: str) -> Batch | None:
        """How far a batch is."""

    async def attempts(self, job_id: str) -> list[Attempt]:
        """The finished attempts of a job."""

    async def log(self, job_id: str, attempt: int) -> bytes | None:
        """The output kept of one attempt."""

    async def cancel(self, job_id: str, now: int) -> str | None:
        """Cancel a waiting job or mark a processing one; the status it had before."""

    async def cancel_many(
        self, job_ids: Sequence[str], statuses: Collection[str], now: int
    ) -> list[str | None]:
        """The same for many jobs, those that are in one of `statuses` by then."""

    async def find_to_cancel(self, query: JobQuery) -> list[str]:
        """The ids of jobs that fit and can be cancelled, at most the limit of the query."""

    async def count_to_cancel(self, query: JobQuery, most: int) -> int:
        """How many fit and can be cancelled, counted no further than `most`."""

    async def run_now(self, job_id: str, now: int) -> str | None:
        """Make a scheduled or retrying job pending; the status it had before."""

    async def dead(self, job_type: str, after: str | None, limit: int) -> list[str]:
        """The ids of dead jobs of a type, oldest first."""

    async def replay(self, replays: Sequence[Replay], act: Act) -> list[Found | None]:
        """Give dead jobs fresh attempts; what each was before, None where there is none."""

    async def discard(self, job_id: str, act: Act) -> str | None:
        """Give a dead job up; the status it had before."""

    async def changes(self, job_id: str) -> list[Change]:
        """What people did to a job, first to last."""

    async def claim(self, asks: Sequence[Ask], now: int) -> list[Claimed]:
        """Hand pending jobs to idle workers, best first."""

    async def pause(self, job_type: str, by: str, note: str | None, now: int) -> None:
        """Start no more jobs of a type; a pause that holds already stays, with a newer note."""

    async def resume(self, job_type: str) -> None:
        """Start jobs of a type again."""

    async def open_breaker(self, job_type: str, reason: str, now: int, probe_at: int) -> bool:
        """Start no more of a type than a probe; False where its breaker is open already."""

    async def close_breaker(self, job_type: str, since: int) -> bool:
        """Start all jobs of a type again; False where it is not that opening any more."""

    async def follow_clock(self, now: int) -> None:
        """The clock was set back: nobody waits for what is yet to come again."""

    async def line_up(self, job_type: str, most: int | None, start: Key | None) -> Key | None:
        """Let at most so many of each key of a type run, from now on and of those there are.

        A bounded number at a time: where to go on, from the beginning and at the end None."""

    def is_lined_up(self, job_type: str, most: int | None) -> bool:
        """Whether a type is lined up for that limit; what is claimed before may exceed it."""

    async def standing(self, job_id: str, asks: Sequence[Ask], now: int) -> Standing | None:
        """Where a job stands, and whether it would be given to those who ask."""

    async def in_front(self, job_type: str) -> Counted:
        """How many pending jobs of a type wait for nobody of their key."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Status | None]:
        """End attempts; the status each job has now, None where the lease was lost.

        A job that somebody asked to cancel does not run again: it is cancelled."""

    async def extend(self, leases: Sequence[Lease], expires_at: Sequence[int]) -> list[bool]:
        """Move leases on; False where one was lost."""

    async def report_progress(self, lease: Lease, progress: Progress) -> bool:
        """Remember how far a running job is."""

    async def keep_log(self, lease: Lease, output: bytes) -> None:
        """Put the output so far of a running attempt on disk."""

    async def held_by_daemon(self) -> list[Held]:
        """What a daemon on this store was running itself."""

    async def held_under(self, tokens: Sequence[str]) -> list[Held | None]:
        """The jobs remote workers hold under these tokens; None where one was lost."""

    async def expired_leases(self, now: int) -> list[Held]:
        """Processing jobs whose lease has run out, a bounded number."""

    async def next_lease_expiry(self) -> int | None:
        """When the next lease runs out."""

    async def promote(self, now: int) -> int:
        """Make a bounded number of due jobs pending; how many."""

    async def expire(self, now: int) -> list[str]:
        """Expire a bounded number of waiting jobs; their ids."""

    async def next_due(self) -> int | None:
        """When the next waiting job is due or expires."""

    async def remove_outlived(self, retained: Retained, now: int, most: int) -> Cleared:
        """Delete at most so many finished jobs past their retention."""

    async def give_back_space(self, seconds: float) -> Cleared:
        """Return unused space to the file system for about so long."""

    async def next_outlived(self, retained: Retained) -> int | None:
        """When the next finished job is past its retention."""

    async def holdings(self, retained: Retained) -> Holdings:
        """What finished jobs there are, and the space they left."""

    async def oldest_pending(self) -> int | None:
        """Since when the longest waiting runnable job waits."""

    async def close(self) -> None:
        """Finish what was asked, then close."""
