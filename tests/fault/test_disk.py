"""A disk that fails, fills up or is slow under the real daemon."""

from __future__ import annotations

import errno
import random
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import PATIENCE
from tests.fault import disks  # noqa: F401
from tests.fault.disks import IO_ERROR
from tests.fault.preload import CHANGES, NO_SPACE, Calls, FaultyDisk
from tests.fault.short import suffer
from tests.fault.small_disks import (
    cannot_mount,
    fill_up,
    keep_notes_outside,
    mounted,
    remount,
)

ECHO = """
[types.echo]
command = ["cat"]
[types.away]
remote = true
lease = "5s"
"""
AWAY_SECONDS = 5.0
STARTS = 6
STOPS = 4


async def test_errors_stop_the_daemon_and_lose_nothing(tmp_path: Path) -> None:
    await suffer(
        tmp_path,
        "I/O error at the Nth call",
        "a file system that becomes read-only",
        "a disk that is gone for good",
    )


async def test_without_space_it_waits_and_resumes_alone(tmp_path: Path) -> None:
    await suffer(tmp_path, "no space left, not even from the reserve", "a quota that is used up")


async def test_a_slow_disk_is_only_slow(tmp_path: Path) -> None:
    await suffer(tmp_path, "a slow disk: 200 ms a sync")


@pytest.fixture
def serving(prepare: Serve, compiler: None) -> Serving:
    return prepare(ECHO)


@pytest.mark.parametrize("trouble", ["full", "slow"])
def test_a_worker_elsewhere_keeps_its_job_whatever_the_disk_does(
    serving: Serving, trouble: str
) -> None:
    """Its leases are renewed in memory; what became of the job is on disk in the end."""
    disk = FaultyDisk(serving.place / "jobs.db")
    serving.start(**disk.under_control({}))
    job_id = serving.submit("away")["id"]
    wish = {"types": ["away"], "wait_seconds": 10, "worker": "elsewhere"}
    [job] = serving.post("/leases", wish).document["jobs"]
    if trouble == "full":
        disk.fail(NO_SPACE, errno.ENOSPC)
    else:
        disk.slow(Calls.SYNC, 6_000)
    until_later = time.monotonic() + 1.5 * AWAY_SECONDS
    while time.monotonic() < until_later:
        beat = {"token": job["lease"]["token"], "progress": {"percent": 50}}
        [state] = serving.post("/leases/heartbeat", {"leases": [beat]}).document["leases"]
        assert state["status"] == "ok"
        assert state["expires_in_seconds"] == AWAY_SECONDS
        time.sleep(0.2)
    disk.heal()
    outcome = {"token": job["lease"]["token"], "outcome": "completed"}
    [ended] = serving.post("/leases/settle", {"leases": [outcome]}).document["leases"]
    assert ended["status"] == "ok"
    assert [one["outcome"] for one in serving.attempts(job_id)] == ["completed"]


def test_an_error_while_starting_is_told_and_harmless(serving: Serving) -> None:
    """Half-way through the making of a file, and through the reading of what was left."""
    disk = FaultyDisk(serving.place / "jobs.db")
    # Only the very first start makes the reserve as well.
    serving.start()
    remove_database(serving)
    calls = calls_of_a_start(serving, disk)
    for call in [0, *random.sample(range(1, calls), STARTS)]:
        remove_database(serving)
        assert fails_at_start(serving, disk, call) == IO_ERROR, (call, serving.log()[-500:])
        assert "I/O error" in serving.log() or "Input/output error" in serving.log()
    serving.start()
    assert serving.finish("echo")["status"] == "completed"


def remove_database(serving: Serving) -> None:
    serving.kill()
    (serving.place / "jobs.db").unlink(missing_ok=True)
    (serving.place / "jobs.db-wal").unlink(missing_ok=True)


def calls_of_a_start(serving: Serving, disk: FaultyDisk) -> int:
    """How often a daemon writes before it takes jobs, when it has no file yet."""
    disk.watch(CHANGES)
    serving.start(**disk.under_control({}))
    return disk.seen


def fails_at_start(serving: Serving, disk: FaultyDisk, call: int) -> int:
    """The exit code of a daemon for which that call of its start fails."""
    (serving.place / "serve.log").write_text("")
    disk.fail(CHANGES, errno.EIO, after=call, times=1)
    serving.launch(**disk.under_control({}))
    return serving.process.wait(PATIENCE)


def test_an_error_while_stopping_is_told_and_harmless(serving: Serving) -> None:
    disk = FaultyDisk(serving.place / "jobs.db")
    kept: set[str] = set()
    for _ in range(STOPS):
        serving.start(**disk.under_control({}))
        kept |= {serving.submit("echo", delay_seconds=3600)["id"] for _ in range(5)}
        disk.fail(CHANGES, errno.EIO, after=random.randint(0, 5), times=1)
        code = serving.stop()
        assert (code, disk.failed) == (IO_ERROR, 1), serving.log()[-500:]
        disk.heal()
    serving.start()
    assert {job["id"] for job in serving.all_jobs()} == kept


async def test_a_small_disk_fills_up_and_has_space_again(tmp_path: Path) -> None:
    if (missing := cannot_mount()) is not None:
        pytest.skip(missing)
    row = await fill_up(tmp_path, 2)
    assert (row.times, row.lost, row.violations) == (2, 0, 0), row.remarks


def test_a_disk_mounted_read_only(tmp_path: Path) -> None:
    """The kernel refuses it while the daemon runs; one that starts there says what is wrong."""
    if (missing := cannot_mount()) is not None:
        pytest.skip(missing)
    (disk := tmp_path / "disk").mkdir()
    with mounted(disk):
        serving = Serving(disk, ECHO)
        keep_notes_outside(disk, tmp_path / "outside")
        try:
            suffer_read_only(serving.start(), disk)
        finally:
            serving.clean_up()


def suffer_read_only(serving: Serving, disk: Path) -> None:
    kept = {serving.submit("echo", delay_seconds=3600)["id"] for _ in range(5)}
    assert not remount(disk, "ro")
    assert serving.finish("echo")["status"] == "completed"
    assert serving.stop() == 0
    assert remount(disk, "ro")
    serving.launch()
    assert serving.process.wait(PATIENCE) == IO_ERROR
    assert "Read-only file system" in serving.log()
    assert remount(disk, "rw")
    serving.start()
    assert {job["id"] for job in serving.all_jobs()} > kept
    assert serving.stop() == 0
