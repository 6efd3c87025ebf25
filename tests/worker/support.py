"""A daemon with remote types, and workers beside the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from jobqueued.client import Client, Job
from jobqueued.worker import Worker
from tests.cli.support import PATIENCE, Serving

REMOTE = """
[types.task]
remote = true
max_retries = 3
[types.short]
remote = true
lease = "5s"
max_retries = 5
backoff = { base = "100ms", jitter = "0s" }
[types.timed]
remote = true
timeout = "2s"
[types.idle]
remote = true
"""


class RemoteServing(Serving):
    """A daemon whose jobs are run by the workers of a test."""

    def __init__(self, place: Path) -> None:
        (place / "conf.d").mkdir()
        (place / "conf.d" / "remote.toml").write_text(REMOTE)
        super().__init__(place)

    @property
    def url(self) -> str:
        return f"unix:{self.place}/jobqueued.sock"

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait(PATIENCE)


@asynccontextmanager
async def working(
    daemon: RemoteServing, handler: Callable[..., Any], kind: str = "task", **options: Any
) -> AsyncIterator[Worker]:
    """A worker that serves for as long as the block runs."""
    worker = Worker(daemon.url, {kind: handler}, **options)
    serving = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(PATIENCE):
            await serving


async def until(happened: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is yes, asynchronous or not."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = happened()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.02)


async def in_state(client: Client, job_id: str, *statuses: str) -> Job:
    """The job once it is in one of these states."""

    async def look() -> Job | None:
        job = await client.get(job_id)
        return job if job.status in statuses else None

    found: Job = await until(look)
    return found
