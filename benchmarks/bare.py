"""What aiohttp alone can do: a handler that only reads the body and answers.

As a program it serves until it is ended: python benchmarks/bare.py application|server
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvloop
from aiohttp import web

ANSWER = b'{"id":"' + b"0" * 36 + b'","status":"pending","more":"' + b"x" * 520 + b'"}'
"""As long as the daemon's answer to a small job."""

VARIANTS = ("application", "server")


class Bare(NamedTuple):
    """A bare server in a process of its own."""

    pid: int
    port: int


async def answer(request: web.BaseRequest) -> web.Response:
    """Read the body, answer with the same document every time."""
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


async def serve(variant: str) -> None:
    """Serve for ever; the port goes to standard output."""
    runner = _runner(variant)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _runner(variant: str) -> web.BaseRunner:
    if variant == "server":
        return web.ServerRunner(web.Server(answer, access_log=None))
    application = web.Application()
    application.router.add_post("/jobs", answer)
    return web.AppRunner(application, access_log=None)


@contextmanager
def bare_server(variant: str) -> Iterator[Bare]:
    """Have one of the variants running."""
    process = subprocess.Popen([sys.executable, __file__, variant], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Bare(process.pid, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.communicate()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
