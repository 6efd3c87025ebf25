# Functions that the daemon calls, in child processes that it keeps warm.
#
#     [types.score]
#     python = "handlers:score"
#     python_path = ["."]
#
#     [types.crawl]
#     python = "handlers:crawl"
#     python_path = ["."]
#
# A relative path starts at the directory of the configuration.
from __future__ import annotations

import asyncio

from jobqueued import Fatal, Retry


def score(payload):
    """The return value is the result; an exception means another attempt."""
    if not payload.get("words"):
        raise Fatal("there is nothing to score")
    return {"score": sum(len(word) for word in payload["words"])}


async def crawl(payload, job):
    """A second argument is the job: its id, its attempt, a way to say how far it is."""
    for number, page in enumerate(payload["pages"]):
        await asyncio.sleep(0)  # fetch the page here
        job.progress(100 * number / len(payload["pages"]), page)
    if job.attempt == 1:
        raise Retry("the site asked to come back later", after=0.1)
    job.log.info("read %d pages", len(payload["pages"]))
    return {"pages": len(payload["pages"]), "attempt": job.attempt}
