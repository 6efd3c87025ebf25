"""Batches: many jobs, all or nothing."""

from __future__ import annotations

from aiohttp import web

from jobqueued import clock
from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.jobs import header_keys
from jobqueued.api.submissions import parse_batch
from jobqueued.api.wire import batch_json, checked_batch_json, new_batch_json


async def submit_batch(call: Call) -> web.StreamResponse:
    """Store all jobs of a batch, or none; or only check them."""
    body = await call.body()
    jobs, pace = await parse_batch(body, header_keys(call), call.engine.config, clock.now())
    if call.query.get("dry_run"):
        return Answer(200, checked_batch_json(len(jobs)))
    batch_id, submitted = await call.engine.submit_batch(jobs, pace)
    location = ("Location", f"/batches/{batch_id}")
    return Answer(201, new_batch_json(batch_id, submitted), headers=(location,))


async def show_batch(call: Call) -> web.StreamResponse:
    """How far a batch is."""
    return Answer(200, batch_json(await call.engine.batch(call.id)))
