"""A remote worker: `worker.py PLACE URL TYPE...`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from jobqueued.worker import Context, Fatal, Worker
from tests.fault.handlers.notes import Failed, Notes, conclude

NOTES = Notes(sys.argv[1], "remote")


async def perform(payload: Any, job: Context) -> dict[str, object]:
    """Do as the payload says."""
    try:
        with NOTES.execution(job.id, job.attempt):
            await asyncio.sleep(payload["seconds"])
            return conclude(payload, job.attempt)
    except Failed as failure:
        if payload["fatal"]:
            raise Fatal(str(failure)) from failure
        raise


if __name__ == "__main__":
    handlers = dict.fromkeys(sys.argv[3:], perform)
    Worker(sys.argv[2], handlers, concurrency=4, drain=5.0).run()
