"""kill -9 with limits of every kind in force: none is exceeded, and nobody is left short."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.history import Line
from tests.fault.limited import kill_with_limits, read_lines, set_limits
from tests.fault.limits import MOST_OF_KEY

TIMES = 3


async def test_limits_hold_and_nobody_is_left_short(tmp_path: Path) -> None:
    async with Campaign(tmp_path) as campaign:
        set_limits(campaign)
        await campaign.start()
        for _ in range(TIMES):
            await kill_with_limits(campaign)
        report = await campaign.finish()
    assert report.broken == 0, f"{report}; seed {campaign.seed}"
    held_back = {line.type for line in campaign.history.lines if any(line.held_back)}
    assert held_back == set(MOST_OF_KEY), "no limit was in anybody's way"
    assert all(pause.resumed is not None for pause in campaign.history.pauses)


def test_the_jobs_of_a_key_are_read_in_the_order_in_which_they_go(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    columns = "type, tenant, key, status, held_back, priority, run_at, seq"
    rows = [
        ("mail", None, "north", "processing", 0, 5, 3, 1),
        ("mail", None, "north", "pending", 1, 5, 2, 2),
        ("mail", None, "north", "pending", 0, 9, 4, 3),
        ("mail", None, "north", "completed", 1, 5, 1, 4),
        ("mail", None, None, "pending", 0, 5, 1, 5),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute(f"CREATE TABLE jobs ({columns})")
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        lines = read_lines(path)
    assert lines == [Line("mail", None, 0, [False]), Line("mail", "north", 1, [False, True])]
