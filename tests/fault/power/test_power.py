"""Power loss at any moment: what was acknowledged is there when the power comes back."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from jobqueued.store.sqlite.migrate import shipped_migrations
from tests.acceptance.support import environment
from tests.fault.campaign import Campaign
from tests.fault.faults import FAULTS, TRIALS, declare_all
from tests.fault.power.aftermath import go_on
from tests.fault.power.chance import ALL, NOTHING
from tests.fault.power.cuts import Cut, draw_cuts, images, judge
from tests.fault.power.inspection import Findings
from tests.fault.power.recording import Kind, Operation, read_trace, recorder
from tests.fault.power.replay import Disk
from tests.fault.power.runs import NORMAL, Recorded, idle, migrate, record, work
from tests.fault.power.trial import FIRST_OPERATIONS, KILL, SCENARIOS

pytestmark = pytest.mark.usefixtures("compiler")
one_record = pytest.mark.xdist_group("power")
"""Where tests run side by side: the daemon that all of these look at is recorded once."""
CUTS = 60
SHIPPED = len(shipped_migrations())
"""The schema of a daemon without more."""
declare_all()


def cut(
    recorded: Recorded, operations: Sequence[Operation], seed: str, way: str | None = None
) -> list[Findings]:
    return judge(recorded.run, operations, draw_cuts(operations, CUTS, seed, way))


def all_clean(findings: Sequence[Findings]) -> bool:
    return all(found.is_clean for found in findings)


@one_record
def test_the_record_tells_every_byte(recorded: Recorded) -> None:
    disk = Disk(recorded.run.place)
    disk.follow(recorded.run.operations())
    seen = disk.seen()
    assert {Path(name).name for name in seen} == {"jobs.db", "jobs.db.lock", "jobs.db.reserve"}
    assert seen == {name: Path(name).read_bytes() for name in seen}


async def test_the_record_tells_every_byte_of_the_log(place: Path) -> None:
    async with Campaign(place) as campaign:
        campaign.daemon.variables |= recorder(place, place / "trace")
        await campaign.start()
        await campaign.a_while(1.0)
        await campaign.clients.stop()
        await campaign.drain()
        disk = Disk(place)
        disk.follow(read_trace(place / "trace"))
        log = place / "jobs.db-wal"
        assert disk.seen()[str(log)] == log.read_bytes() != b""


@one_record
def test_nothing_is_lost(recorded: Recorded, seed: str) -> None:
    findings = cut(recorded, recorded.run.operations(), seed)
    assert all_clean(findings), f"seed {seed}: {[one for one in findings if not one.is_clean]}"


@one_record
async def test_the_daemon_goes_on(recorded: Recorded, seed: str) -> None:
    (report,) = await go_on(recorded, draw_cuts(recorded.run.operations(), 1, seed))
    assert report.broken == 0, f"seed {seed}: {report}"


@one_record
def test_every_moment_of_the_first_start(recorded: Recorded, seed: str) -> None:
    operations = recorded.run.operations()
    cuts = draw_cuts(operations[:FIRST_OPERATIONS], CUTS, seed)
    findings = judge(recorded.run, operations, cuts)
    assert all_clean(findings), f"seed {seed}: {[one for one in findings if not one.is_clean]}"


async def test_a_directory_that_the_daemon_makes(place: Path, seed: str) -> None:
    recorded = await record(place, [work(0.2)], database="state/own/jobs.db", seed=seed)
    findings = cut(recorded, recorded.run.operations(), seed, NOTHING)
    assert all_clean(findings), f"seed {seed}: {[one for one in findings if not one.is_clean]}"


@one_record
def test_a_disk_that_does_not_sync_is_caught(recorded: Recorded, seed: str) -> None:
    operations = [one for one in recorded.run.operations() if one.kind is not Kind.SYNCED]
    assert any(found.lost for found in cut(recorded, operations, seed))


async def test_normal_durability(place: Path, seed: str) -> None:
    """A power cut costs the last moments, and is caught; a kill costs nothing."""
    recorded = await record(place, [work(1.0)], config=NORMAL, seed=seed)
    operations = recorded.run.operations()
    powerless = cut(recorded, operations, seed)
    assert any(found.lost for found in powerless)
    assert not any(found.corrupt for found in powerless)
    killed = cut(recorded, operations, seed, ALL)
    assert all_clean(killed), f"seed {seed}: {[one for one in killed if not one.is_clean]}"


async def test_normal_durability_is_late_by_a_second(place: Path, seed: str) -> None:
    recorded = await record(place, [work(0.5), idle(2.5)], config=NORMAL, seed=seed)
    operations = recorded.run.operations()
    pauses = [later.ended - one.ended for one, later in pairwise(operations)]
    quiet = Cut(pauses.index(max(pauses)) + 1, NOTHING, seed)
    (found,) = judge(recorded.run, operations, [quiet])
    assert found.is_clean, f"seed {seed}: {found}"


async def test_kills_under_normal_durability(tmp_path: Path) -> None:
    async with Campaign(tmp_path, config=NORMAL) as campaign:
        await campaign.start()
        for _ in range(3):
            await FAULTS[KILL].inject(campaign)
        report = await campaign.finish()
    assert report.broken == 0, f"seed {campaign.seed}: {report}"


async def test_around_a_migration(place: Path, seed: str) -> None:
    recorded = await record(place, [work(0.5), migrate], more_schemas=1, seed=seed)
    operations = recorded.run.operations()
    names = [Path(one.name).name for one in operations]
    begin = names.index(f"jobs.db.schema-{SHIPPED}.backup") - 50
    window = operations[: begin + 300]
    findings = judge(recorded.run, operations, late_cuts(window, begin, seed))
    assert all_clean(findings), f"seed {seed}: {[one for one in findings if not one.is_clean]}"
    check_migrated_with_backup(recorded, operations, late_cuts(window, begin, f"{seed}-again"))


def late_cuts(operations: Sequence[Operation], begin: int, seed: str) -> list[Cut]:
    """Cuts after an operation."""
    cuts = draw_cuts(operations[begin:], CUTS, seed)
    return [one._replace(after=one.after + begin) for one in cuts]


def check_migrated_with_backup(
    recorded: Recorded, operations: Sequence[Operation], cuts: Sequence[Cut]
) -> None:
    """Whoever has the new schema has the old file as well, whole."""
    versions = set()
    with tempfile.TemporaryDirectory() as target:
        for _, image in images(recorded.run.place, operations, cuts, Path(target)):
            version = ask(image / "jobs.db", "PRAGMA user_version")
            versions.add(version)
            if version == SHIPPED + 1:
                backup = image / f"jobs.db.schema-{SHIPPED}.backup"
                assert ask(backup, "PRAGMA integrity_check") == "ok"
                assert ask(backup, "PRAGMA user_version") == SHIPPED
    assert versions == {SHIPPED, SHIPPED + 1}


def ask(database: Path, question: str) -> object:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(question).fetchone()[0]


async def test_a_backup_is_whole_or_absent(place: Path, seed: str) -> None:
    copies = place / "copies"
    copies.mkdir()
    async with Campaign(place) as campaign:
        await campaign.start()
        await campaign.a_while(0.5)
        known = set(campaign.history.acknowledged())
        await back_up(campaign, copies)
    operations = read_trace(place / "trace")
    found = set()
    with tempfile.TemporaryDirectory() as target:
        cuts = draw_cuts(operations, CUTS, seed)
        for _, image in images(copies, operations, cuts, Path(target)):
            found.add(is_there(image / "copy.db", known))
    assert is_there(copies / "copy.db", known)
    assert found == {True, False}


async def back_up(campaign: Campaign, copies: Path) -> None:
    """`jobqueued backup`, on record, while the load goes on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jobqueued", "backup", str(copies / "copy.db"),
        "--config", str(campaign.daemon.config_path),
        env=environment(campaign.place) | recorder(copies, campaign.place / "trace"),
    )  # fmt: skip
    assert await process.wait() == 0


def is_there(backup: Path, known: set[str]) -> bool:
    """Whether there is a backup; then it has all that was known."""
    if not backup.exists():
        return False
    assert ask(backup, "PRAGMA integrity_check") == "ok"
    with closing(sqlite3.connect(f"{backup.as_uri()}?mode=ro&immutable=1", uri=True)) as copy:
        assert known <= {row[0] for row in copy.execute("SELECT id FROM jobs")}
    return True


def test_the_long_runs_know_all_of_this() -> None:
    assert {f"power loss {name}" for name in SCENARIOS} <= TRIALS.keys()
