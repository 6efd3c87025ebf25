"""The check-up of the machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jobqueued.cli import surroundings
from jobqueued.cli.surroundings import clock_sanity, directory, file_system_of

MOUNTS = r"""
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:40 / /srv rw - tmpfs tmpfs rw
31 21 0:41 / /srv/with\040space rw shared:1 - nfs4 host:/export rw
32 21 0:42 / /over rw - ext4 /dev/sdb1 rw
33 32 0:43 / /over rw - overlay overlay rw
""".strip()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/", "ext4"),
        ("/home/someone", "ext4"),
        ("/srv/data", "tmpfs"),
        ("/srv/with space/jobs", "nfs4"),
        ("/srvother", "ext4"),
        ("/over/here", "overlay"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(place: str, kind: str) -> None:
    assert file_system_of(Path(place), MOUNTS) == kind


def test_a_network_file_system_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = file_system_of(tmp_path, Path("/proc/self/mountinfo").read_text())
    monkeypatch.setattr(surroundings, "REMOTE_FILE_SYSTEMS", frozenset({own}))
    levels = {each.subject: each.level for each in directory(tmp_path / "jobs.db")}
    assert levels == {"directory": "ok", "file system": "fault", "disk space": "ok"}


def test_a_directory_that_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    first = next(directory(tmp_path / "state" / "jobqueued" / "jobs.db"))
    assert (first.level, first.subject) == ("ok", "directory")
    assert "will be made" in first.text
    assert not (tmp_path / "state").exists()


def test_little_space_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "SCARCE_SPACE", 1 << 62)
    assert list(directory(tmp_path / "jobs.db"))[-1].level == "warning"
    monkeypatch.setattr(surroundings, "LITTLE_SPACE", 1 << 62)
    assert list(directory(tmp_path / "jobs.db"))[-1].level == "fault"


def test_a_clock_behind_the_database_is_a_fault(tmp_path: Path) -> None:
    database = tmp_path / "jobs.db"
    assert clock_sanity(database).level == "ok"
    database.touch()
    assert clock_sanity(database).level == "ok"
    ahead = time.time() + 7200
    os.utime(database, (ahead, ahead))
    found = clock_sanity(database)
    assert found.level == "fault"
    assert "behind the last write" in found.text
