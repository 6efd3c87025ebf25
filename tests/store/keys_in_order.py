"""How many of a key run at once, in any order of verbs: never too many, and nobody left short."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jobqueued.model.ids import place_of
from jobqueued.model.job import Status
from jobqueued.store.interface import Key
from jobqueued.store.sqlite import keys
from tests.store.any_order import TYPES, WINDOW, AnyOrder, Known, Labels, chances, labels, types
from tests.store.support import key_queue, new_job


class KeysInOrder(AnyOrder):
    """Limits that change at any time, and are followed a few jobs at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, int | None] = dict.fromkeys(TYPES)
        self.positions: dict[str, Key | None] = {}
        """How far types are on the way to their limits."""
        self.ran: dict[Key, int] = {}
        """How many of each key ran before."""

    @rule(
        job_type=types,
        priorities=st.lists(st.sampled_from([4, 4, 4, 5]), min_size=2, max_size=6),
        delay=st.sampled_from([0, 0, 0, 50]),
        expires_in=st.sampled_from([None, None, 40]),
        shared=labels.filter(lambda labels: "key" in labels),
    )
    def flood(
        self, job_type: str, priorities: list[int], delay: int, expires_in: int | None,
        shared: Labels,
    ) -> None:  # fmt: skip
        expires_at = self.now + expires_in if expires_in else None
        jobs = [
            new_job(
                job_type, now=self.now, delay=delay, priority=priority, max_retries=20,
                expires_at=expires_at, **shared,
            )
            for priority in priorities
        ]  # fmt: skip
        self.run(self.store.submit(jobs, batch_id=None, window=WINDOW))
        self.known |= {job.id: Known(job, job.status, job.run_at) for job in jobs}

    @initialize(most=st.sampled_from([None, 1, 2]))
    def open_with_a_limit(self, most: int | None) -> None:
        self.open()
        for job_type in TYPES:
            self.limit(job_type, most)

    @rule(job_type=types, most=st.sampled_from([None, 1, 2, 3]))
    def limit(self, job_type: str, most: int | None) -> None:
        self.limits[job_type] = most
        self.positions.pop(job_type, None)
        if not self.is_ready(job_type):
            self.go_on_lining_up(job_type)

    @precondition(lambda self: not all(map(self.is_ready, TYPES)))
    @rule(to_the_end=st.booleans())
    def line_up(self, to_the_end: bool) -> None:
        for job_type in TYPES:
            while not self.is_ready(job_type):
                self.go_on_lining_up(job_type)
                if not to_the_end:
                    return

    def go_on_lining_up(self, job_type: str) -> None:
        start = self.positions.get(job_type)
        with patch.object(keys, "_AT_ONCE", 2):
            going_on = self.store.line_up(job_type, self.limits[job_type], start)
            self.positions[job_type] = self.run(going_on)
        assert (self.positions[job_type] is None) == self.is_ready(job_type)

    @rule()
    def reopen(self) -> None:
        super().reopen()
        self.positions = {}

    def is_ready(self, job_type: str) -> bool:
        return self.store.is_lined_up(job_type, self.limits[job_type])

    def can_go(self, known: Known) -> bool:
        return known.job.key is None or known in self.first_in_line(key_of(known))

    def first_in_line(self, key: Key) -> list[Known]:
        """The pending jobs of a key that may run beside those that do."""
        pending = [each for each in self.of_key(key) if each.status is Status.PENDING]
        most = self.limits[key[0]]
        if most is None:
            return pending
        running = sum(each.status is Status.PROCESSING for each in self.of_key(key))
        return sorted(pending, key=rank)[: max(0, most - running)]

    def of_key(self, key: Key) -> Iterator[Known]:
        return (each for each in self.known.values() if key_of(each) == key)

    @precondition(lambda self: self.known)
    @rule(chance=chances)
    def read_what_a_key_waits_for(self, chance: int) -> None:
        known = self.pick(chance)
        found = self.run(key_queue(self.store, known.job.id))
        if not self.is_ready(known.job.type):
            return
        if known.status is not Status.PENDING or self.can_go(known):
            assert found is None
            return
        others = list(self.of_key(key_of(known)))
        running = [each.job.id for each in others if each.status is Status.PROCESSING]
        pending = [each for each in others if each.status is Status.PENDING]
        assert found is not None
        assert (found.key, found.running) == (known.job.key, len(running))
        assert sorted(found.running_ids) == sorted(running)
        assert found.ahead == sum(rank(each) < rank(known) for each in pending)

    @invariant()
    def exactly_the_right_ones_are_held_back(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.beside.execute("SELECT id, held_back FROM jobs WHERE status = 'pending'")
        for job_id, held_back in rows:
            known = self.known[job_id]
            if self.is_ready(known.job.type):
                assert bool(held_back) != self.can_go(known)

    @invariant()
    def no_key_runs_more_than_it_may(self) -> None:
        """What was claimed under a higher limit may end under a lower one."""
        running: defaultdict[Key, int] = defaultdict(int)
        for each in self.held():
            running[key_of(each)] += 1
        grown = {key: n for key, n in running.items() if n > self.ran.get(key, 0)}
        for (job_type, tenant, key), number in grown.items():
            most = self.limits[job_type]
            assert not key or most is None or number <= most, (job_type, tenant, key)
        self.ran = dict(running)


def key_of(known: Known) -> Key:
    return known.job.type, known.job.tenant, known.job.key or ""


def rank(known: Known) -> tuple[int, int, int]:
    """The order in which the jobs of a key go."""
    return -known.job.priority, known.run_at, place_of(known.job.id) or 0
