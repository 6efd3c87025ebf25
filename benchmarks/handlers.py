"""Handlers that do nothing, or tell the moment they ran: run as a program, a worker or a receiver.

Usage: python benchmarks/handlers.py work URL JOBS_AT_A_TIME
       python benchmarks/handlers.py receive PORT
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def nothing(job: Any) -> None:
    """Complete at once."""


def clock(job: Any) -> int:
    """The moment this ran, in nanoseconds."""
    return time.time_ns()


@contextmanager
def running(*arguments: str) -> Iterator[None]:
    """This file as a program of its own, for as long as it is needed."""
    process = Popen([sys.executable, __file__, *arguments])
    try:
        yield
    finally:
        process.terminate()
        if code := process.wait():
            raise RuntimeError(f"{' '.join(arguments)} ended with {code}")


def work(url: str, at_a_time: str) -> None:
    """Be a remote worker."""
    from jobqueued.worker import Worker

    async def nothing(payload: Any) -> None:
        pass

    async def clock(payload: Any) -> int:
        return time.time_ns()

    handlers = {"remote_nothing": nothing, "remote_clock": clock}
    Worker(url, handlers, concurrency=int(at_a_time)).run()


def receive(port: str) -> None:
    """Be a webhook receiver."""
    from aiohttp import web

    async def clock(request: web.Request) -> web.Response:
        now = time.time_ns()
        await request.read()
        return web.json_response(now)

    application = web.Application()
    application.router.add_post("/", clock)
    web.run_app(application, host="127.0.0.1", port=int(port), print=None)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1] == "work":
        work(*sys.argv[2:])
    else:
        receive(*sys.argv[2:])
