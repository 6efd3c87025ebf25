"""Whether the daemon is alive and ready, and what it is doing."""

from __future__ import annotations

from aiohttp import web

from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.wire import WireHealth, WireReadiness, encode


async def show_health(call: Call) -> web.StreamResponse:
    """Answering is the whole proof."""
    return Answer(200, encode(WireHealth("ok")))


async def show_readiness(call: Call) -> web.StreamResponse:
    """Whether a job sent now would be taken."""
    reasons = call.engine.unready_reasons()
    return Answer(503 if reasons else 200, encode(WireReadiness(not reasons, reasons)))


async def show_stats(call: Call) -> web.StreamResponse:
    """What `jobqueued status` shows."""
    stats = await call.engine.stats()
    return Answer(200, encode(stats | {"refused": call.app.refused}))
