"""Who waits for a job to change is woken, and forgotten when done."""

from __future__ import annotations

import asyncio

import pytest

from jobqueued.engine.running import Changes
from jobqueued.engine.service import Engine
from jobqueued.model.errors import NotFound
from jobqueued.model.job import Status
from tests.engine.support import settle_down, submit


def waiters(changes: Changes) -> int:
    return sum(len(waiting) for waiting in changes._waiting.values()) + len(changes._waiting)


async def test_all_who_wait_for_a_job_are_woken() -> None:
    changes = Changes()
    mine = [changes.next("a") for _ in range(3)]
    other = changes.next("b")
    changes.notify("a")
    assert all(waiter.done() for waiter in mine)
    assert not other.done()


async def test_a_change_is_told_once() -> None:
    changes = Changes()
    first = changes.next("a")
    changes.notify("a")
    second = changes.next("a")
    await settle_down()
    assert first.done()
    assert not second.done()
    changes.notify("a")
    assert second.done()


async def test_a_change_nobody_waits_for_is_nothing() -> None:
    changes = Changes()
    changes.notify("a")
    assert waiters(changes) == 0


async def test_who_stops_waiting_is_forgotten() -> None:
    changes = Changes()
    waiting = [changes.next(name) for name in "aab" * 100]
    for waiter in waiting[:150]:
        waiter.cancel()
    changes.notify("a")
    changes.notify("b")
    await settle_down()
    assert waiters(changes) == 0


async def test_who_stopped_waiting_does_not_stop_the_others() -> None:
    changes = Changes()
    gone, stays = changes.next("a"), changes.next("a")
    gone.cancel()
    await settle_down()
    changes.notify("a")
    assert stays.done()


async def test_a_wait_that_times_out_leaves_nothing(engine: Engine) -> None:
    job = await submit(engine, delay=60_000)
    waits = [engine.wait(job.id, 0.02) for _ in range(20)]
    found = await asyncio.gather(*waits)
    assert {one.status for one in found} == {Status.SCHEDULED}
    await settle_down()
    assert waiters(engine.shared.changes) == 0


async def test_a_wait_that_is_cancelled_leaves_nothing(engine: Engine) -> None:
    job = await submit(engine, delay=60_000)
    waits = [asyncio.create_task(engine.wait(job.id, 60)) for _ in range(20)]
    await settle_down()
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    await settle_down()
    assert waiters(engine.shared.changes) == 0


async def test_a_wait_ends_with_the_job(engine: Engine) -> None:
    job = await submit(engine, delay=60_000)
    waits = [asyncio.create_task(engine.wait(job.id, 60)) for _ in range(20)]
    await settle_down()
    await engine.cancel(job.id)
    assert {(await wait).status for wait in waits} == {Status.CANCELLED}
    await settle_down()
    assert waiters(engine.shared.changes) == 0


async def test_a_change_that_is_not_the_end_is_waited_past(engine: Engine) -> None:
    job = await submit(engine, delay=60_000)
    wait = asyncio.create_task(engine.wait(job.id, 60))
    await engine.run_now(job.id)
    await settle_down()
    assert not wait.done()
    await engine.cancel(job.id)
    assert (await wait).status is Status.CANCELLED


async def test_a_wait_for_no_job_leaves_nothing(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.wait("nobody", 60)
    await settle_down()
    assert waiters(engine.shared.changes) == 0
