"""Files that are not what the daemon left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.api.support import PATIENCE
from tests.fault.files import DAMAGED, build, flip_bits, serving_copy

FLIPS = 6


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a database that waits for a daemon."""
    place = tmp_path_factory.mktemp("files") / "sound"
    build(place)
    return place


async def test_bits_that_flipped(tmp_path: Path) -> None:
    row = await flip_bits(tmp_path, FLIPS)
    assert (row.times, row.violations) == (FLIPS, 0), row.remarks


@pytest.mark.parametrize(
    "name", ["jobs.db-wal", "jobs.db-shm", "jobs.db-journal", "jobs.db.reserve"]
)
def test_strays_beside_the_database_do_no_harm(sound: Path, tmp_path: Path, name: str) -> None:
    serving = serving_copy(sound, tmp_path / "copy")
    (serving.place / name).write_bytes(os.urandom(200_000))
    serving.start()
    try:
        jobs = [serving.wait(job["id"]) for job in serving.all_jobs()]
        assert {job["status"] for job in jobs} == {"completed"}
        assert len(jobs) == 40
        assert serving.stop() == 0
    finally:
        serving.clean_up()


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_a_file_that_was_cut(sound: Path, tmp_path: Path, share: float) -> None:
    serving = serving_copy(sound, tmp_path / "copy")
    database = serving.place / "jobs.db"
    os.truncate(database, int(database.stat().st_size * share))
    before = database.read_bytes()
    serving.launch()
    assert serving.process.wait(PATIENCE) == DAMAGED
    assert "jobs.db" in serving.log()
    assert database.read_bytes() == before
