"""The end of the daemon while limits of every kind are in force."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.acceptance.support import filled_in
from tests.api.support import PATIENCE
from tests.fault.campaign import Campaign
from tests.fault.clients import NO_ANSWER
from tests.fault.daemon import talk
from tests.fault.faults import fault
from tests.fault.history import Line, Moment, OpenBreaker, Pause
from tests.fault.limits import CONFIG, CROWD, PROBE_EVERY, REMOTE, TYPES

WAITING = """
SELECT type, key, status = 'processing', held_back FROM jobs
WHERE status IN ('pending', 'processing')
ORDER BY type, tenant, key, status = 'pending', priority DESC, run_at, seq
"""


def set_limits(campaign: Campaign) -> None:
    """Have types that are limited, and clients and workers of them."""
    daemon = campaign.daemon
    config = filled_in(CONFIG, daemon.place).replace("{port}", str(daemon.port))
    with daemon.config_path.open("a") as file:
        file.write(config)
    campaign.clients.kinds.update(TYPES)
    campaign.remote_types += REMOTE


@fault("kill -9 with every limit in force", ends_daemon=True, times=50, prepare=set_limits)
async def kill_with_limits(campaign: Campaign) -> None:
    """One type is paused, of all others more wait than may run, breakers are open or not."""
    pause = await pause_type(campaign, campaign.chance.choice(list(CROWD)))
    await submit_crowd(campaign)
    await campaign.a_while(0.5)
    await look_at_breakers(campaign)
    campaign.daemon.crash()
    campaign.history.lines += await asyncio.to_thread(read_lines, campaign.daemon.database)
    await campaign.restart()
    await campaign.a_while()
    await look_at_breakers(campaign)
    await resume_type(campaign, pause)
    await campaign.a_while(0.2)


async def submit_crowd(campaign: Campaign) -> None:
    """See to it that of every type more jobs wait than may run, and not many more."""
    client, chance = campaign.client, campaign.chance
    async with talk(campaign.daemon) as session:
        async with session.get("/types") as reply:
            types = (await reply.json())["types"]
        waiting = {each["name"]: each["counts"].get("pending", 0) for each in types}
        kinds = [kind for kind, most in CROWD.items() for _ in range(most - waiting[kind])]
        jobs = [client.new_job(kind, seconds=round(chance.uniform(0, 0.1), 3)) for kind in kinds]
        if jobs:
            await client.submit(session, jobs, batch=True)


async def pause_type(campaign: Campaign, kind: str) -> Pause:
    """Pause a type, on record."""
    await _insist(campaign, f"/types/{kind}/pause")
    pause = Pause(kind, Moment.now())
    campaign.history.pauses.append(pause)
    return pause


async def resume_type(campaign: Campaign, pause: Pause) -> None:
    """Resume it, on record."""
    pause.resumed = Moment.now()
    await _insist(campaign, f"/types/{pause.type}/resume")


async def _insist(campaign: Campaign, path: str) -> None:
    async with asyncio.timeout(PATIENCE), talk(campaign.daemon) as session:
        while True:
            try:
                async with session.post(path) as reply:
                    if reply.status == 200:
                        return
            except NO_ANSWER:
                pass
            await asyncio.sleep(0.02)


async def look_at_breakers(campaign: Campaign) -> None:
    """Note which are open, and since when; they were open all that time."""
    async with talk(campaign.daemon) as session:
        for kind in PROBE_EVERY:
            asked = Moment.now().wall
            async with session.get(f"/types/{kind}") as reply:
                breaker = (await reply.json())["breaker"]
            if breaker["since"] is not None:
                since = datetime.fromisoformat(breaker["since"]).timestamp()
                since = campaign.history.real_time(since)
                campaign.history.breakers.append(OpenBreaker(kind, since, asked))


def read_lines(database: Path) -> list[Line]:
    """How the jobs of every key stand in the file of a daemon that was killed.

    In a copy: opening the file would mend what the daemon is to mend itself.
    """
    with TemporaryDirectory(dir=database.parent) as place:
        for path in (database, database.with_name(f"{database.name}-wal")):
            if path.exists():
                shutil.copy(path, place)
        with closing(sqlite3.connect(Path(place, database.name))) as connection:
            return list(_lines(connection))


def _lines(connection: sqlite3.Connection) -> Iterator[Line]:
    rows = connection.execute(WAITING)
    for (kind, key), jobs in groupby(rows, lambda row: row[:2]):
        found = list(jobs)
        waiting = [bool(held_back) for _, _, is_running, held_back in found if not is_running]
        yield Line(kind, key, len(found) - len(waiting), waiting)
