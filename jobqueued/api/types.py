"""Job types: what there is, pausing and resuming."""

from __future__ import annotations

from aiohttp import web

from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.fields import NOTE, Fields, field
from jobqueued.api.peer import peer_of
from jobqueued.api.wire_types import type_json, types_json

PAUSE = Fields({"note": field(*NOTE, "Why; shown to whoever asks what holds the type")})


async def list_types(call: Call) -> web.StreamResponse:
    """Every type that is configured or has jobs."""
    return Answer(200, types_json(call.engine.controls.all()))


async def show_type(call: Call) -> web.StreamResponse:
    """One type."""
    return Answer(200, type_json(call.engine.controls.one(call.id)))


async def pause_type(call: Call) -> web.StreamResponse:
    """Start no more jobs of a type; once this is answered, none starts."""
    note = (await call.fields(PAUSE)).get("note")
    peer = peer_of(call.request)
    return Answer(200, type_json(await call.engine.controls.pause(call.id, peer, note)))


async def resume_type(call: Call) -> web.StreamResponse:
    """Start jobs of a type again."""
    await call.no_fields()
    peer = peer_of(call.request)
    return Answer(200, type_json(await call.engine.controls.resume(call.id, peer)))
