"""Every verb of the store in any order: nothing is lost, and what is read is what was written."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jobqueued.model.job import TERMINAL, WAITING, Progress, Status
from jobqueued.model.submission import JobQuery
from tests.store.any_order import TYPES, Known, Labels, chances, labels, types
from tests.store.any_order import WINDOW as KEY_WINDOW
from tests.store.keys_in_order import KeysInOrder
from tests.store.support import KINDS, new_job

MOST = 1000


class EveryVerb(KeysInOrder):
    """Beside the life of a job: batches, what holders of leases write, and everything read."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: dict[str, list[str]] = {}
        self.numbers = itertools.count(1)

    def a_held_one(self, chance: int) -> Known:
        held = self.held()
        return held[chance % len(held)]

    @rule(kinds=st.lists(types, min_size=1, max_size=3), shared=labels)
    def submit_batch(self, kinds: list[str], shared: Labels) -> None:
        batch_id = f"batch-{next(self.numbers)}"
        jobs = [
            new_job(kind, now=self.now, batch_id=batch_id, max_retries=20, **shared)
            for kind in kinds
        ]
        placed = self.run(self.store.submit(jobs, batch_id=batch_id, window=KEY_WINDOW))
        assert [one.job.id for one in placed] == [job.id for job in jobs]
        self.batches[batch_id] = [job.id for job in jobs]
        self.known |= {job.id: Known(job, job.status, job.run_at) for job in jobs}

    @precondition(lambda self: self.held())
    @rule(status=st.sampled_from(sorted(KINDS)))
    def settle_all_twice(self, status: Status) -> None:
        """Of two outcomes of an attempt the first counts, also in one transaction."""
        held = self.held()
        first = [self.ending_of(known, status) for known in held]
        second = [self.ending_of(known, Status.DEAD) for known in held]
        expected = [self.ended(known, one) for known, one in zip(held, first, strict=True)]
        found = self.run(self.store.settle([*first, *second]))
        assert found == [*expected, *[None] * len(held)]

    @precondition(lambda self: self.held())
    @rule(chance=chances, longer=st.sampled_from([-50, 0, 70, 500]))
    def extend(self, chance: int, longer: int) -> None:
        """A lease is never shortened."""
        known = self.a_held_one(chance)
        assert known.claimed is not None
        assert known.lease_expires_at is not None
        moment = self.now + longer
        assert self.run(self.store.extend([known.claimed.lease], [moment])) == [True]
        known.lease_expires_at = max(known.lease_expires_at, moment)

    @precondition(lambda self: self.held())
    @rule(chance=chances, percent=st.integers(0, 100))
    def report(self, chance: int, percent: int) -> None:
        known = self.a_held_one(chance)
        assert known.claimed is not None
        lease, output = known.claimed.lease, b"%d percent" % percent
        known.progress = Progress(float(percent), f"at {self.now}")
        assert self.run(self.store.report_progress(lease, known.progress))
        self.run(self.store.keep_log(lease, output))
        known.logs[lease.attempt] = output

    @precondition(lambda self: self.known)
    @rule(chance=chances)
    def read_a_job(self, chance: int) -> None:
        known = self.pick(chance)
        job = self.run(self.store.job(known.job.id))
        assert job is not None
        assert (job.status, job.payload, job.run_at) == (
            known.status, known.payload, known.run_at
        )  # fmt: skip
        changes = self.run(self.store.changes(known.job.id))
        assert [(c.action, c.attempt, c.payload_before) for c in changes] == known.changes
        assert (job.attempt, job.progress) == (known.attempt, known.progress)
        assert (job.finished_at, job.lease_expires_at) == (
            known.finished_at, known.lease_expires_at
        )  # fmt: skip
        attempts = self.run(self.store.attempts(known.job.id))
        assert [attempt.outcome for attempt in attempts] == known.attempts
        for number in range(1, known.attempt + 1):
            log = self.run(self.store.log(known.job.id, number))
            assert log == known.logs.get(number)

    @rule(status=st.sampled_from([None, *Status]))
    def read_a_list(self, status: Status | None) -> None:
        query = JobQuery(statuses=() if status is None else (status.value,), limit=MOST)
        page = self.run(self.store.jobs(query))
        expected = [each for each in self.known.values() if status in (None, each.status)]
        assert [job.id for job in page.jobs] == sorted(
            (each.job.id for each in expected), reverse=True
        )
        assert page.next_cursor is None

    @precondition(lambda self: self.batches)
    @rule(chance=chances)
    def read_a_batch(self, chance: int) -> None:
        name = list(self.batches)[chance % len(self.batches)]
        batch = self.run(self.store.batch(name))
        left = [self.known[one] for one in self.batches[name] if one in self.known]
        if batch is None:
            assert left == []
            return
        assert sum(batch.counts.values()) == len(left)
        is_over = all(each.status in TERMINAL for each in left)
        assert (batch.finished_at is not None) == is_over

    @rule()
    def read_who_holds_what(self) -> None:
        tokens = [each.claimed.lease.token for each in self.held() if each.claimed]
        found = self.run(self.store.held_under([*tokens, "nobody.1.x"]))
        remote = [each.holder == "remote" for each in self.held()]
        assert [one is not None for one in found] == [*remote, False]
        for one, known in zip(found, self.held(), strict=False):
            assert one is None or one.cancel_requested == known.cancel_requested
        expired = {one.lease.job_id for one in self.run(self.store.expired_leases(self.now))}
        ends = {each.job.id: each.lease_expires_at or 0 for each in self.held()}
        assert expired == {job_id for job_id, end in ends.items() if end <= self.now}
        following = self.run(self.store.next_lease_expiry())
        assert following == min(ends.values(), default=None)

    @rule()
    def read_what_comes_next(self) -> None:
        waiting = [each for each in self.known.values() if each.status in WAITING]
        due = [each.run_at for each in waiting if each.status is not Status.PENDING]
        expiring = [each.expires_at for each in waiting if each.expires_at is not None]
        assert self.run(self.store.next_due()) == min([*due, *expiring], default=None)
        if all(map(self.is_ready, TYPES)):
            ready = [one for one in waiting if one.status is Status.PENDING and self.can_go(one)]
            oldest = min((each.run_at for each in ready), default=None)
            assert self.run(self.store.oldest_pending()) == oldest
        assert self.run(self.store.give_back_space(1.0)).number == 0


BOUNDED = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestEveryVerb = EveryVerb.TestCase
TestEveryVerb.settings = BOUNDED
TestKeysInOrder = KeysInOrder.TestCase
TestKeysInOrder.settings = settings(BOUNDED, max_examples=100)
