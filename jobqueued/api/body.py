"""Reading the body of a request: its kind, its size, in bounded time."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError

from jobqueued.api.errors import Problem

BODY_SECONDS = 30.0
"""How long a client may take to send its body."""

_CURL = "with curl, use --json '{...}' or add -H 'Content-Type: application/json'"


async def read_json_body(request: web.BaseRequest, most: int) -> bytes:
    """The whole body, which must say that it is JSON and be UTF-8; empty when there is none."""
    content = request.content
    try:
        body = content.read_nowait() if content.is_eof() else await _read_slowly(request, most)
    except (HttpProcessingError, web.RequestPayloadError, ConnectionError, EOFError) as error:
        raise Problem(
            400, "bad_request", "The body ended early or is not well framed.", closes=True
        ) from error
    if len(body) > most:
        raise _too_large(most)
    if body:
        _check_headers(request)
        if not body.isascii():
            _check_utf8(body)
    return body


async def _read_slowly(request: web.BaseRequest, most: int) -> bytes:
    if (request.content_length or 0) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await _continue(request)
            return await _gather(request, most)
    except TimeoutError:
        raise Problem(
            408,
            "body_timeout",
            f"The body did not arrive within {BODY_SECONDS:.0f} seconds.",
            closes=True,
        ) from None


async def _continue(request: web.BaseRequest) -> None:
    """Tell a client that asks first to go ahead."""
    expected = request.headers.get(hdrs.EXPECT, "")
    if expected.lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The answer proper has not begun yet.
        request.writer.output_size = 0


async def _gather(request: web.BaseRequest, most: int) -> bytes:
    body = bytearray()
    while chunk := await request.content.readany():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _too_large(most: int) -> Problem:
    return Problem(
        413, "body_too_large", f"The body is larger than {most} bytes (server.max_body)."
    )


def _check_headers(request: web.BaseRequest) -> None:
    headers = request.headers
    content_type = headers.get(hdrs.CONTENT_TYPE)
    if content_type is None:
        raise _unsupported(f"The body has no Content-Type: {_CURL}.")
    if not is_json(content_type):
        what = f'"{content_type[:100]}"'
        raise _unsupported(f"The body must be application/json in UTF-8, not {what}: {_CURL}.")
    encoding = headers.get(hdrs.CONTENT_ENCODING)
    if encoding is not None and encoding.strip().lower() != "identity":
        raise _unsupported("Compressed bodies are not accepted: send it without Content-Encoding.")


@lru_cache(maxsize=64)
def is_json(content_type: str) -> bool:
    """Whether a Content-Type is JSON in UTF-8."""
    kind, *parameters = [part.strip().lower() for part in content_type.split(";")]
    main, _, sub = kind.partition("/")
    if kind != "application/json" and not (main and sub.endswith("+json") and sub != "+json"):
        return False
    charsets = [value for value in parameters if value.startswith("charset=")]
    return all(value.removeprefix("charset=").strip('"') in ("utf-8", "utf8") for value in charsets)


def _unsupported(detail: str) -> Problem:
    # Surrogates stand for bytes of a header that are not UTF-8.
    readable = detail.encode("utf-8", "replace").decode()
    return Problem(415, "unsupported_media_type", readable)


def _check_utf8(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Problem(
            400, "malformed_json", f"The body is not UTF-8 (byte {error.start})."
        ) from None
