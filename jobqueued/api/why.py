"""Why jobs do not run: of one job, and of all that wait of a type."""

from __future__ import annotations

from aiohttp import web

from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.wire_why import why_json, why_type_json


async def explain_job(call: Call) -> web.StreamResponse:
    """Every reason that holds one job now."""
    return Answer(200, why_json(await call.engine.reasons.of_job(call.id)))


async def explain_type(call: Call) -> web.StreamResponse:
    """What the waiting jobs of a type wait for."""
    return Answer(200, why_type_json(await call.engine.reasons.of_type(call.id)))
