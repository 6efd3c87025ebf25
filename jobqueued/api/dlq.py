"""Dead letters: list, look, replay one or many, discard."""

from __future__ import annotations

from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta

from jobqueued import clock
from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.fields import (
    NOTE,
    Faults,
    Fields,
    field,
    read_fields,
    read_object,
    unknown_name,
    verbatim,
)
from jobqueued.api.payloads import check_payload
from jobqueued.api.peer import peer_of
from jobqueued.api.queries import dead_query
from jobqueued.api.submissions import BATCH, SUBMISSION
from jobqueued.api.wire import dead_json, job_json, page_json, replayed_json
from jobqueued.engine.dead import MOST_REPLAYED
from jobqueued.model.change import Act, BulkReplay
from jobqueued.model.ids import place_of
from jobqueued.model.job import Status

CONFIRM = field(
    bool, "must be true or false", "Needed for types with confirm_replay", default=False
)

REPLAY = Fields(
    {
        "payload": verbatim("Another payload, from now on; left out, it stays as it is"),
        "note": field(*NOTE, "Why; it stays with the job"),
        "confirm": CONFIRM,
    }
)
REPLAY_MANY = Fields(
    {
        "type": SUBMISSION["type"],
        "limit": field(
            Annotated[int, Meta(ge=1, le=MOST_REPLAYED)],
            f"must be a whole number from 1 to {MOST_REPLAYED}",
            "At most so many, oldest first",
            default=MOST_REPLAYED,
        ),
        "cursor": field(
            str, "must be a next_cursor of an earlier answer", "Begin after this dead job"
        ),
        "delay_seconds": SUBMISSION["delay_seconds"],
        "pace_per_second": BATCH["pace_per_second"],
        "note": REPLAY["note"],
        "confirm": CONFIRM,
        "dry_run": field(
            bool, "must be true or false", "Only say which they would be", default=False
        ),
    }
)
DISCARD = Fields({"note": field(*NOTE, "Why; it stays with the job", required=True)})


async def list_dead(call: Call) -> web.StreamResponse:
    """One page of dead jobs."""
    return Answer(200, page_json(await call.engine.dead_letters.page(dead_query(call.query))))


async def show_dead(call: Call) -> web.StreamResponse:
    """One dead job with its history."""
    letters = call.engine.dead_letters
    job = await letters.get(call.id)
    attempts = await call.engine.attempts(call.id)
    return Answer(200, dead_json(job, attempts, await letters.changes(call.id)))


async def replay_dead(call: Call) -> web.StreamResponse:
    """Run a dead job again, with another payload where one is sent."""
    values = await call.fields(REPLAY)
    letters = call.engine.dead_letters
    job = await letters.dead(call.id)
    if "payload" in values:
        faults = Faults()
        check_payload(values["payload"], job.type, call.engine.config, faults)
        faults.raise_any()
    confirm = values.get("confirm", False)
    await letters.replay(job, values.get("payload"), _act(call, values), confirm=confirm)
    return Answer(200, job_json(await call.engine.job(call.id)))


async def replay_many(call: Call) -> web.StreamResponse:
    """Run many dead jobs of a type again."""
    faults = Faults()
    values = read_fields(read_object(await call.body()), REPLAY_MANY, faults)
    asked = _bulk_replay(values, faults)
    if "type" in values:
        _check_type(call, asked.type, faults)
    faults.raise_any()
    done = await call.engine.dead_letters.replay_many(asked, _act(call, values))
    return Answer(200, replayed_json(done, asked.dry_run))


async def discard_dead(call: Call) -> web.StreamResponse:
    """Give a dead job up."""
    faults = Faults()
    values = read_fields(read_object(await call.body()), DISCARD, faults)
    faults.raise_any()
    await call.engine.dead_letters.discard(call.id, _act(call, values))
    return Answer(200, job_json(await call.engine.job(call.id)))


def _check_type(call: Call, name: str, faults: Faults) -> None:
    """A type that is no longer configured may still have dead jobs."""
    engine = call.engine
    if name not in engine.config.types and not engine.store.counts.of(name, Status.DEAD):
        faults.add("type", unknown_name("job type", name, engine.config.types), "unknown_type")


def _bulk_replay(values: dict[str, Any], faults: Faults) -> BulkReplay:
    cursor = values.get("cursor")
    if cursor is not None and (not cursor.isascii() or place_of(cursor) is None):
        faults.add("cursor", REPLAY_MANY["cursor"].wants)
    return BulkReplay(
        type=values.get("type", ""),
        limit=values.get("limit", MOST_REPLAYED),
        after=cursor,
        delay=round(values.get("delay_seconds", 0) * 1000),
        pace_per_second=values.get("pace_per_second"),
        confirm=values.get("confirm", False),
        dry_run=values.get("dry_run", False),
    )


def _act(call: Call, values: dict[str, Any]) -> Act:
    return Act(peer_of(call.request), clock.now(), values.get("note"))
