"""A pool of workers: who is idle, who is busy, and what changes while they work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobqueued.engine.running import Running
from jobqueued.engine.service import Engine
from jobqueued.engine.workers import Pool
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.engine.support import claim_for, settle_down, submit, take_up, until


class Work:
    """Jobs that run until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.settled: list[str] = []
        self.gate = asyncio.Event()

    async def run(self, running: Running) -> Outcome:
        self.begun.append(running.claimed.worker)
        await self.gate.wait()
        return Outcome(kind=OutcomeKind.COMPLETED)

    async def settle(self, running: Running, outcome: Outcome) -> None:
        self.settled.append(running.claimed.worker)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
async def pool(work: Work) -> AsyncIterator[Pool]:
    made = Pool("default", 3, work.run, work.settle)
    yield made
    await made.close()


async def fill(engine: Engine, pool: Pool) -> list[str]:
    """Give every idle worker a job; their names."""
    names = sorted(pool.idle)
    pool.reserve(names)
    for _ in names:
        await submit(engine)
    for job in await claim_for(engine, names):
        pool.start(take_up(engine, job))
    return names


async def test_workers_are_idle_at_first(pool: Pool) -> None:
    assert sorted(pool.idle) == ["default-1", "default-2", "default-3"]
    assert (pool.workers, pool.busy) == (3, 0)


async def test_all_workers_work_at_once(engine: Engine, pool: Pool, work: Work) -> None:
    names = await fill(engine, pool)
    await until(lambda: sorted(work.begun) == names)
    assert (pool.idle, pool.busy) == ([], 3)


async def test_who_is_done_is_idle_again(engine: Engine, pool: Pool, work: Work) -> None:
    names = await fill(engine, pool)
    work.gate.set()
    await until(lambda: sorted(pool.idle) == names)
    await until(lambda: sorted(work.settled) == names)
    assert pool.busy == 0


async def test_a_pool_grows_while_it_is_busy(engine: Engine, pool: Pool, work: Work) -> None:
    await fill(engine, pool)
    pool.resize(5)
    assert await fill(engine, pool) == ["default-4", "default-5"]
    await until(lambda: len(work.begun) == 5)
    assert (pool.workers, pool.busy) == (5, 5)


async def test_a_pool_shrinks_as_its_workers_finish(engine: Engine, pool: Pool, work: Work) -> None:
    await fill(engine, pool)
    pool.resize(1)
    assert (pool.workers, pool.busy, pool.idle) == (1, 3, [])
    work.gate.set()
    await until(lambda: pool.busy == 0)
    assert pool.idle == ["default-1"]


async def test_a_pool_that_shrank_and_grew_has_each_worker_once(
    engine: Engine, pool: Pool, work: Work
) -> None:
    names = await fill(engine, pool)
    pool.resize(1)
    pool.resize(3)
    assert pool.idle == []
    work.gate.set()
    await until(lambda: pool.busy == 0)
    assert sorted(pool.idle) == names


async def test_idle_workers_go_at_once(pool: Pool) -> None:
    pool.resize(1)
    assert pool.idle == ["default-1"]
    pool.resize(2)
    assert sorted(pool.idle) == ["default-1", "default-2"]


async def test_closing_ends_the_workers(pool: Pool) -> None:
    before = {task for task in asyncio.all_tasks() if task.get_name() == "worker default"}
    assert len(before) == 3
    await pool.close()
    await settle_down()
    assert all(task.done() for task in before)
