"""What comes after an attempt: the only place where retries are counted."""

from __future__ import annotations

import msgspec

from jobqueued.model.job import Status
from jobqueued.model.outcome import Outcome, OutcomeKind

FAILURES = frozenset(
    {
        OutcomeKind.FAILED,
        OutcomeKind.FATAL,
        OutcomeKind.TIMEOUT,
        OutcomeKind.CRASHED,
        OutcomeKind.LOST,
    }
)


class Backoff(msgspec.Struct, frozen=True):
    """Waiting time between attempts, in milliseconds."""

    base: int = 30_000
    factor: float = 2.0
    max: int = 3_600_000
    jitter: int = 15_000

    def delay(self, failures: int, chance: float) -> int:
        """Milliseconds to wait after failure number `failures`; `chance` is uniform in [0, 1)."""
        grown = int(min(self.base * self.factor ** (failures - 1), self.max))
        return grown + int(self.jitter * chance)


class Next(msgspec.Struct, frozen=True):
    """The state a job goes to after an attempt; without a `run_at` it keeps its place."""

    status: Status
    run_at: int | None
    failures: int
    losses: int


def after_attempt(
    outcome: Outcome,
    *,
    failures: int,
    losses: int,
    max_retries: int,
    backoff: Backoff,
    now: int,
    chance: float,
) -> Next:
    """Decide what becomes of a job whose attempt ended with `outcome`."""
    kind = outcome.kind
    if kind is OutcomeKind.COMPLETED:
        return Next(Status.COMPLETED, None, failures, losses)
    if kind is OutcomeKind.CANCELLED:
        return Next(Status.CANCELLED, None, failures, losses)
    if kind is OutcomeKind.INTERRUPTED:
        return _put_off(outcome, failures, losses, backoff, now)
    failures += 1
    losses += kind is OutcomeKind.LOST
    if kind is OutcomeKind.FATAL or failures > max_retries:
        return Next(Status.DEAD, None, failures, losses)
    if kind is OutcomeKind.LOST and losses == 1:
        return Next(Status.PENDING, None, failures, losses)
    return Next(Status.RETRYING, now + _wait(outcome, backoff, failures, chance), failures, losses)


def _put_off(outcome: Outcome, failures: int, losses: int, backoff: Backoff, now: int) -> Next:
    """No failure: run again at once, or when whoever was asked wants to be asked again."""
    if outcome.retry_after_ms is None:
        return Next(Status.PENDING, None, failures, losses)
    wait = min(outcome.retry_after_ms, backoff.max)
    return Next(Status.SCHEDULED, now + wait, failures, losses)


def _wait(outcome: Outcome, backoff: Backoff, failures: int, chance: float) -> int:
    if outcome.retry_after_ms is not None:
        return min(outcome.retry_after_ms, backoff.max)
    return backoff.delay(failures, chance)
