"""Dead jobs: another chance, with another payload, or given up; and who did it stays on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from jobqueued.model.change import Act, Found, Replay
from jobqueued.model.errors import KeyReused
from jobqueued.model.job import Job, Status
from jobqueued.model.retry import Next
from jobqueued.store.interface import Retained, Store
from jobqueued.store.sqlite import changes
from jobqueued.store.sqlite.offline import read_job
from jobqueued.store.sqlite.store import SqliteStore
from tests.store.support import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    beside,
    end,
    ending,
    fill_schema_1,
    finished,
    new_job,
    opened,
    put,
    remove,
    running,
    status_of,
    take,
)

LATER = NOW + HOUR
ANN = Act("user ann", LATER, "the address was wrong")


async def died(store: Store, **fields: Any) -> str:
    return await finished(store, Status.DEAD, **fields)


async def replayed(store: Store, job_id: str, payload: bytes | None = None) -> Job:
    assert await store.replay([Replay(job_id, LATER, payload)], ANN) == [Found("dead")]
    job = await store.job(job_id)
    assert job is not None
    return job


async def test_a_replayed_job_has_fresh_attempts(store: Store) -> None:
    job_id = await died(store, outcome={"log": b"what went wrong", "error": "wrong"})
    before = await store.job(job_id)
    job = await replayed(store, job_id)
    assert before is not None
    assert (before.failures, before.attempt) == (1, 1)
    assert (job.status, job.failures, job.attempt) == (Status.PENDING, 0, 1)
    assert (job.run_at, job.finished_at, job.created_at) == (LATER, None, before.created_at)
    assert store.counts.by_type() == {"mail": {"pending": 1}}
    [claimed] = await take(store, now=LATER)
    assert (claimed.lease.attempt, claimed.failures, claimed.losses) == (2, 0, 0)
    assert await end(store, claimed, at=LATER) == Status.COMPLETED
    assert [one.outcome for one in await store.attempts(job_id)] == ["fatal", "completed"]
    assert await store.log(job_id, 1) == b"what went wrong"


async def test_the_payload_can_be_corrected(store: Store) -> None:
    job_id = await died(store, payload=b'{"to":"nobody"}')
    job = await replayed(store, job_id, b'{"to": 1.10}')
    assert job.payload == b'{"to": 1.10}'
    [change] = await store.changes(job_id)
    assert (change.action, change.actor, change.at) == ("replay", "user ann", LATER)
    assert (change.note, change.attempt) == ("the address was wrong", 1)
    assert change.payload_before == b'{"to":"nobody"}'
    [claimed] = await take(store, now=LATER)
    assert (claimed.payload, claimed.payload_intact) == (b'{"to": 1.10}', True)


async def test_the_same_payload_is_no_change(store: Store) -> None:
    job_id = await died(store, payload=b"[1]")
    await replayed(store, job_id, b"[1]")
    assert [one.payload_before for one in await store.changes(job_id)] == [None]


async def test_a_damaged_payload_can_be_replaced(sqlite: SqliteStore, path: Path) -> None:
    job_id = await died(sqlite, payload=b"[1]")
    with beside(path) as other:
        other.execute("UPDATE payloads SET payload = x'5b32'")
    assert (await replayed(sqlite, job_id, b"[1]")).payload == b"[1]"
    [claimed] = await take(sqlite, now=LATER)
    assert claimed.payload_intact


async def test_a_replay_can_wait_for_its_time(store: Store) -> None:
    job_id = await died(store)
    await store.replay([Replay(job_id, LATER + SECOND)], ANN)
    assert await status_of(store, job_id) == Status.SCHEDULED
    assert await take(store, now=LATER) == []
    assert await store.next_due() == LATER + SECOND
    assert await store.promote(LATER + SECOND) == 1
    assert len(await take(store, now=LATER + SECOND)) == 1


@pytest.mark.parametrize(
    ("expires_at", "left"), [(NOW + SECOND, None), (LATER, None), (LATER + 1, LATER + 1)]
)
async def test_a_replay_is_not_stopped_by_an_expiry_that_has_passed(
    store: Store, expires_at: int, left: int | None
) -> None:
    job_id = await died(store, expires_at=expires_at)
    assert (await replayed(store, job_id)).expires_at == left
    assert await store.expire(LATER) == []


async def test_a_replay_forgets_that_somebody_wanted_to_cancel(store: Store) -> None:
    claimed = await running(store)
    await store.cancel(claimed.lease.job_id, NOW)
    assert await end(store, claimed, Status.DEAD) == Status.DEAD
    await replayed(store, claimed.lease.job_id)
    [again] = await take(store, now=LATER)
    assert await end(store, again, Status.RETRYING, at=LATER) == Status.RETRYING


async def test_a_result_of_before_does_not_outlast_a_replay(store: Store) -> None:
    job_id = await died(store, outcome={"result": b"1"})
    assert (await replayed(store, job_id)).result is None


@pytest.mark.parametrize(
    "status", [Status.COMPLETED, Status.CANCELLED, Status.PENDING, Status.RETRYING]
)
async def test_what_is_not_dead_stays_as_it_is(store: Store, status: Status) -> None:
    job_id = await finished(store, status, payload=b"[1]")
    before = await store.job(job_id)
    assert await store.replay([Replay(job_id, LATER, b"[2]")], ANN) == [Found(status)]
    assert await store.discard(job_id, ANN) == status
    assert (await store.job(job_id), await store.changes(job_id)) == (before, [])


async def test_what_is_not_there_is_told(store: Store) -> None:
    gone = (await put(store)).id[:-1] + "x"
    assert await store.replay([Replay(gone, LATER)], ANN) == [None]
    assert await store.discard(gone, ANN) is None
    assert await store.changes(gone) == []


async def test_a_late_outcome_changes_nothing_after_a_replay(store: Store) -> None:
    claimed = await running(store)
    assert await end(store, claimed, Status.DEAD) == Status.DEAD
    await replayed(store, claimed.lease.job_id)
    assert await end(store, claimed) is None
    await take(store, now=LATER)
    assert await end(store, claimed) is None
    assert await status_of(store, claimed.lease.job_id) == Status.PROCESSING


async def test_a_discarded_job_is_over(store: Store) -> None:
    job_id = await died(store)
    assert await store.discard(job_id, ANN) == Status.DEAD
    job = await store.job(job_id)
    assert job is not None
    assert (job.status, job.finished_at) == (Status.DISCARDED, LATER)
    [change] = await store.changes(job_id)
    assert (change.action, change.note) == ("discard", "the address was wrong")
    assert await store.discard(job_id, ANN) == Status.DISCARDED
    assert await store.replay([Replay(job_id, LATER)], ANN) == [Found("discarded")]
    assert store.counts.by_type() == {"mail": {"discarded": 1}}


async def test_what_was_done_goes_with_the_job(store: Store, path: Path) -> None:
    job_id = await died(store)
    await replayed(store, job_id, b"[]")
    [claimed] = await take(store, now=LATER)
    await end(store, claimed, at=LATER)
    keep = Retained({"completed": HOUR}, idempotency_window=0)
    assert await remove(store, keep, LATER + HOUR) == 1
    with beside(path) as other:
        assert other.execute("SELECT count(*) FROM changes").fetchone() == (0,)


async def test_a_key_that_went_to_a_newer_job_is_not_taken_back(store: Store) -> None:
    old = await died(store, idempotency_key="k")
    newer = await put(store, idempotency_key="k", now=NOW + DAY)
    assert newer.id != old
    [found] = await store.replay([Replay(old, LATER)], ANN)
    assert found == Found("dead", f"job {newer.id} (pending)")
    assert not found.replayed
    assert (await status_of(store, old), await store.changes(old)) == (Status.DEAD, [])


async def test_the_key_of_another_tenant_is_no_hindrance(store: Store) -> None:
    old = await died(store, idempotency_key="k", tenant="a")
    await put(store, idempotency_key="k", tenant="b", now=NOW + DAY)
    await put(store, idempotency_key="k", now=NOW + DAY)
    await replayed(store, old)


async def test_a_key_still_finds_its_job_after_the_payload_was_corrected(store: Store) -> None:
    """The client that sends its submission again has asked for this very job."""
    job_id = await died(store, idempotency_key="k", payload=b"[1]")
    await replayed(store, job_id, b"[2]")
    for payload in (b"[1]", b"[2]"):
        assert (await put(store, idempotency_key="k", payload=payload)).id == job_id
    with pytest.raises(KeyReused):
        await put(store, idempotency_key="k", payload=b"[3]")


async def test_many_are_found_oldest_first(store: Store) -> None:
    ids = [await died(store, now=NOW + number) for number in range(5)]
    await died(store, job_type="image")
    assert await store.dead("mail", None, 3) == ids[:3]
    assert await store.dead("mail", ids[2], 9) == ids[3:]
    assert await store.dead("none", None, 9) == []


async def test_one_that_cannot_be_replayed_does_not_hold_up_the_others(store: Store) -> None:
    first, second = [await died(store) for _ in range(2)]
    await store.discard(first, ANN)
    found = await store.replay([Replay(first, LATER), Replay(second, LATER)], ANN)
    assert found == [Found("discarded"), Found("dead")]
    assert await status_of(store, second) == Status.PENDING


async def test_only_the_newest_changes_are_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_CHANGES", 3)
    job_id = await died(store)
    for number in range(5):
        await replayed(store, job_id, b"[%d]" % number)
        [claimed] = await take(store, now=LATER)
        await end(store, claimed, Status.DEAD)
    found = await store.changes(job_id)
    assert [(one.number, one.payload_before) for one in found] == [
        (3, b"[1]"), (4, b"[2]"), (5, b"[3]"),
    ]  # fmt: skip
    monkeypatch.setattr(changes, "MOST_BYTES", 6)
    assert [one.number for one in await store.changes(job_id)] == [4, 5]


async def test_the_history_can_be_read_without_a_daemon(path: Path) -> None:
    async with opened(path) as store:
        job_id = await died(store, payload=b"[1.10]")
        await replayed(store, job_id, b"[]")
    found = read_job(path, job_id)
    assert found is not None
    [change] = cast("list[dict[str, Any]]", found["changes"])
    assert (change["action"], change["actor"], change["edited"]) == ("replay", "user ann", True)
    assert bytes(change["payload_before"]) == b"[1.10]"


async def test_a_file_of_before_is_read_and_brought_up_to_date(path: Path) -> None:
    job = msgspec.structs.replace(new_job(), status=Status.DEAD)
    fill_schema_1(path, [job])
    found = read_job(path, job.id)
    assert found is not None
    assert (found["status"], found["changes"]) == ("dead", [])
    async with opened(path) as store:
        await replayed(store, job.id)


async def test_workers_that_were_lost_before_are_forgotten(store: Store) -> None:
    claimed = await running(store)
    lost = msgspec.structs.replace(
        ending(claimed, Status.DEAD), next=Next(Status.DEAD, None, failures=1, losses=1)
    )
    assert await store.settle([lost]) == [Status.DEAD]
    await replayed(store, claimed.lease.job_id)
    [again] = await take(store, now=LATER)
    assert (again.failures, again.losses) == (0, 0)
