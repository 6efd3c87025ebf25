"""A real file system that is too small, with everything on it but the notes of the handlers."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.api.support import PATIENCE
from tests.fault.campaign import Campaign
from tests.fault.daemon import talk
from tests.fault.disks import RESUME_SECONDS, refused
from tests.fault.faults import trial
from tests.fault.table import Row

SIZE = "64m"
MEGABYTE = 1024 * 1024
OUTSIDE = ("locks", "executions", "serve.log", "receiver.log", "worker.log")


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """A small file system there for as long as the block runs."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def remount(place: Path, how: str) -> bool:
    """Make it `ro` or `rw`; False where the kernel says that it is in use."""
    return subprocess.run(["mount", "-o", f"remount,{how}", place], check=False).returncode == 0


def cannot_mount() -> str | None:
    """Why no file system can be mounted, if none can."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "needs root to mount a small file system"
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place)):
                return None
        except subprocess.CalledProcessError:
            return "may not mount a file system here"


def keep_notes_outside(disk: Path, outside: Path) -> None:
    """What handlers and logs write goes where there is space: only the database suffers."""
    outside.mkdir()
    for name in OUTSIDE:
        if (disk / name).exists():
            shutil.move(disk / name, outside / name)
        (disk / name).symlink_to(outside / name)


@trial("a small disk fills up and has space again", times=10, missing=cannot_mount)
async def fill_up(place: Path, times: int) -> Row:
    row = Row("a small disk fills up and has space again")
    disk = place / "disk"
    disk.mkdir()
    with mounted(disk):
        async with Campaign(disk) as campaign:
            keep_notes_outside(disk, place / "outside")
            await campaign.start()
            for _ in range(times):
                await campaign.a_while()
                await fill_and_free(campaign, disk / "ballast")
            row.add(times, await campaign.finish())
    return row


async def fill_and_free(campaign: Campaign, ballast: Path) -> None:
    """Submissions are refused, what runs still ends, and all resumes without a restart."""
    recorded = campaign.history.injected("disk full")
    await asyncio.to_thread(fill, ballast)
    await refused(campaign)
    await nothing_runs(campaign)
    assert campaign.daemon.is_up, campaign.daemon.log()[-2000:]
    os.unlink(ballast)
    freed = time.monotonic()
    await campaign.daemon.ready()
    assert time.monotonic() - freed < RESUME_SECONDS
    campaign.over(recorded)


def fill(ballast: Path) -> None:
    """Leave not a single block."""
    with ballast.open("ab", buffering=0) as file:
        for size in (MEGABYTE, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


async def nothing_runs(campaign: Campaign) -> None:
    """Wait until every outcome is on disk, full as it is."""
    async with asyncio.timeout(PATIENCE), talk(campaign.daemon) as session:
        while True:
            async with session.get("/stats") as reply:
                if not (await reply.json())["counts"]["processing"]:
                    return
            await asyncio.sleep(0.02)
