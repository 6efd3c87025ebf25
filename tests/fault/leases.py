"""A remote worker that does as the test says, late and out of turn."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from tests.api.support import PATIENCE
from tests.fault.history import History, Moment, Settlement

SHORTEST_LEASE = 5.0


async def lease_one(session: aiohttp.ClientSession, seconds: float = SHORTEST_LEASE) -> Any:
    """Lease a job of the type `remote`, as soon as there is one."""
    wish = {"types": ["remote"], "max": 1, "worker": "by hand", "lease_seconds": seconds}
    async with asyncio.timeout(PATIENCE):
        while True:
            async with session.post("/leases", json=wish | {"wait_seconds": 2}) as reply:
                jobs = (await reply.json())["jobs"]
            if jobs:
                return jobs[0]


async def settle(session: aiohttp.ClientSession, history: History, job: Any) -> str:
    """Report that a leased job is done, on record; what the daemon says to it."""
    number = job["payload"]["number"]
    report = {
        "token": job["lease"]["token"],
        "outcome": "completed",
        "result": {"number": number, "attempt": job["attempt"]},
    }
    async with session.post("/leases/settle", json={"leases": [report]}) as reply:
        (told,) = (await reply.json())["leases"]
    status: str = told["status"]
    history.settlements.append(
        Settlement(job["id"], job["attempt"], "completed", status, Moment.now())
    )
    return status
