"""The captured output of a job, whole or as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from jobqueued.api.answers import PLAIN_TEXT, SEND_SECONDS, SERVER_NAME, Answer
from jobqueued.api.calls import Call
from jobqueued.model.errors import NotFound


async def show_log(call: Call) -> web.StreamResponse:
    """The output of one attempt."""
    attempt = call.query.get("attempt")
    if call.query.get("follow") and call.request.method != "HEAD":
        return await _follow(call, attempt)
    return Answer(200, await call.engine.log(call.id, attempt), PLAIN_TEXT)


async def _follow(call: Call, attempt: int | None) -> web.StreamResponse:
    await _check_exists(call, attempt)
    stream = web.StreamResponse(headers={"Content-Type": PLAIN_TEXT, "Server": SERVER_NAME})
    await stream.prepare(call.request)
    await call.open_ended(_copy(call.engine.follow_log(call.id, attempt), stream))
    await stream.write_eof()
    return stream


async def _copy(chunks: AsyncIterator[bytes], stream: web.StreamResponse) -> None:
    async for chunk in chunks:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await stream.write(chunk)
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None


async def _check_exists(call: Call, attempt: int | None) -> None:
    """Once a stream has begun it cannot become a 404."""
    attempts = await call.engine.attempts(call.id)
    if attempt is not None and all(one.number != attempt for one in attempts):
        raise NotFound(f"The job has no attempt {attempt}.")
