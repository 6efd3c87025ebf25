"""The receiver of webhooks: `receiver.py PLACE PORT`; it gives up what nobody waits for."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from tests.fault.handlers.notes import Failed, Notes, conclude

NOTES = Notes(sys.argv[1], "webhook")


async def receive(request: web.Request) -> web.Response:
    """Do as the payload says."""
    payload = await request.json()
    job_id, attempt = request.headers["webhook-id"], int(request.headers["Jobqueued-Attempt"])
    try:
        with NOTES.execution(job_id, attempt):
            await asyncio.sleep(payload["seconds"])
            result = conclude(payload, attempt)
    except Failed:
        return web.Response(status=400 if payload["fatal"] else 503)
    return web.json_response(result)


if __name__ == "__main__":
    app = web.Application()
    app.router.add_post("/", receive)
    web.run_app(
        app, host="127.0.0.1", port=int(sys.argv[2]), handler_cancellation=True, print=None,
        shutdown_timeout=0.1, reuse_address=True, access_log=None,
    )  # fmt: skip
