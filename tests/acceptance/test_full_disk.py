"""A disk that fills up: nothing is lost, and work goes on by itself when there is space again."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving, is_refused_for_now
from tests.api.support import until

MEGABYTE = 1024 * 1024
RESUME_SECONDS = 5.0
MOUNT = 'mount -t tmpfs -o size=48m tmpfs {disk} && exec "$@"'


def can_mount() -> bool:
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        return False


class SmallDisk:
    """The daemon's own little file system, reached through its process."""

    def __init__(self, serving: Serving, disk: Path) -> None:
        self._ballast = Path(f"/proc/{serving.process.pid}/root{disk}/ballast")

    def fill(self) -> None:
        """Leave not a single block."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (MEGABYTE, 4096, 1):
                _write_all_that_fits(ballast.fileno(), size)

    def free(self) -> None:
        self._ballast.unlink()


def _write_all_that_fits(descriptor: int, size: int) -> None:
    try:
        while os.write(descriptor, b"x" * size) == size:
            pass
    except OSError:
        return


@pytest.fixture
def serving(prepare: Serve) -> Serving:
    """A daemon whose database is on a small disk."""
    if not can_mount():
        pytest.skip("a mount namespace of one's own is not allowed here")
    made = prepare("[types.echo]\ncommand = ['cat']\n" + GATED)
    disk = made.place / "disk"
    disk.mkdir()
    text = made.config_path.read_text()
    made.config_path.write_text(text.replace("jobs.db", "disk/jobs.db"))
    return made.start("unshare", "-rm", "sh", "-c", MOUNT.format(disk=disk), "sh")


@pytest.fixture
def disk(serving: Serving) -> SmallDisk:
    return SmallDisk(serving, serving.place / "disk")


def submit(serving: Serving) -> int:
    """Submit something that does not fit into what is left of a page; the status."""
    payload = {"text": "x" * 8000}
    return serving.post("/jobs", {"type": "echo", "payload": payload}).status


def fill_until_refused(serving: Serving, disk: SmallDisk) -> None:
    disk.fill()
    until(lambda: submit(serving) == 503)


def test_submissions_are_refused_and_running_jobs_still_end(
    serving: Serving, disk: SmallDisk
) -> None:
    running = [serving.at_gate() for _ in range(5)]
    fill_until_refused(serving, disk)
    assert is_refused_for_now(serving.post("/jobs", {"type": "echo"}), 503, "disk_full")
    ready = serving.ask("GET", "/readyz")
    assert (ready.status, ready.document["reasons"]) == (503, ["the disk is full"])
    assert serving.ask("GET", "/healthz").status == 200
    serving.let_all_through(running)
    assert serving.process.poll() is None


def test_work_resumes_by_itself(serving: Serving, disk: SmallDisk) -> None:
    waiting = serving.submit("echo", delay_seconds=1)["id"]
    fill_until_refused(serving, disk)
    stored = serving.stored()
    disk.free()
    freed = time.monotonic()
    until(lambda: submit(serving) == 201)
    resumed = time.monotonic() - freed
    print(f"resumed {resumed:.2f} s after there was space")
    assert resumed < RESUME_SECONDS
    assert serving.ask("GET", "/readyz").status == 200
    assert serving.wait(waiting)["status"] == "completed"
    assert serving.stored() == stored + 1
    assert serving.finish("echo")["status"] == "completed"


def test_what_was_accepted_can_be_read_and_moved_again_when_there_is_space(
    serving: Serving, disk: SmallDisk
) -> None:
    accepted = [serving.submit("echo", delay_seconds=600)["id"] for _ in range(3)]
    fill_until_refused(serving, disk)
    assert [serving.job(job_id)["status"] for job_id in accepted] == ["scheduled"] * 3
    for action in ("cancel", "run"):
        refused = serving.post(f"/jobs/{accepted[0]}/{action}")
        assert is_refused_for_now(refused, 503, "disk_full")
    disk.free()
    until(lambda: serving.ask("GET", "/readyz").status == 200)
    assert serving.post(f"/jobs/{accepted[0]}/cancel").document["status"] == "cancelled"
    assert serving.post(f"/jobs/{accepted[1]}/run").status == 200
    assert serving.wait(accepted[1])["status"] == "completed"
