"""One daemon a database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.model.errors import StoreBusy
from jobqueued.store.sqlite.files import InstanceLock, lock_holder
from tests.store.support import PATIENCE, ROOT

HOLD = """
import pathlib, sys
from jobqueued.store.sqlite.files import InstanceLock
lock = InstanceLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
LEAVE_TO_A_CHILD = """
import os, pathlib, subprocess, sys
from jobqueued.store.sqlite.files import InstanceLock
lock = InstanceLock(pathlib.Path(sys.argv[1]))
child = subprocess.Popen(["cat"], stdin=0, pass_fds=(lock.fd,), stdout=subprocess.DEVNULL)
print("held", flush=True)
os._exit(0)
"""


def start(source: str, path: Path) -> subprocess.Popen[str]:
    """A process that wants the lock; it, or its child, goes when its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", source, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until_held(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait(PATIENCE)


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = start(HOLD, path)
    wait_until_held(process)
    yield process
    let_go(process)


@pytest.fixture
def heir(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A daemon that is dead, but whose child still has the lock."""
    process = start(LEAVE_TO_A_CHILD, path)
    wait_until_held(process)
    process.wait(PATIENCE)
    yield process
    let_go(process)


def test_the_lock_names_its_holder(path: Path) -> None:
    assert lock_holder(path) is None
    lock = InstanceLock(path)
    assert lock_holder(path) == os.getpid()
    assert lock.path.stat().st_mode & 0o777 == 0o600
    lock.release()
    assert lock_holder(path) is None


def test_the_database_itself_is_not_touched(path: Path) -> None:
    InstanceLock(path).release()
    assert not path.exists()


def test_a_second_daemon_is_refused_at_once(path: Path, holder: subprocess.Popen[str]) -> None:
    began = time.monotonic()
    with pytest.raises(StoreBusy, match=f"pid {holder.pid}") as caught:
        InstanceLock(path)
    assert time.monotonic() - began < 2
    assert caught.value.exit_code == 75
    assert lock_holder(path) == holder.pid


def test_a_refused_daemon_leaves_no_descriptor(path: Path, holder: subprocess.Popen[str]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(StoreBusy):
            InstanceLock(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_lock_is_free_when_its_holder_is_killed(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait(PATIENCE)
    lock = InstanceLock(path)
    assert lock_holder(path) == os.getpid()
    lock.release()


def test_what_a_dead_daemon_left_running_is_waited_for(
    path: Path, heir: subprocess.Popen[str]
) -> None:
    assert lock_holder(path) == heir.pid
    waiting = start(HOLD, path)
    wait_until_open(waiting, path)
    assert waiting.poll() is None
    let_go(heir)
    wait_until_held(waiting)
    assert lock_holder(path) == waiting.pid
    let_go(waiting)


def wait_until_open(process: subprocess.Popen[str], path: Path) -> None:
    """Until the process has the lock file open, so that it is waiting for it."""
    lock = str(path.with_name(path.name + ".lock"))
    deadline = time.monotonic() + PATIENCE
    while lock not in open_files(process.pid):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def open_files(pid: int) -> list[str]:
    place = Path(f"/proc/{pid}/fd")
    found = []
    for link in place.iterdir():
        try:
            found.append(os.readlink(link))
        except FileNotFoundError:
            continue
    return found


def test_patience_with_a_dead_daemons_children_ends(
    path: Path, heir: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueued.store.sqlite.files._LOCK_PATIENCE", 0.2)
    began = time.monotonic()
    with pytest.raises(StoreBusy):
        InstanceLock(path)
    assert time.monotonic() - began >= 0.2


def test_a_lock_file_that_says_nothing_is_no_lock(path: Path) -> None:
    path.with_name("jobs.db.lock").write_text("what?")
    lock = InstanceLock(path)
    assert lock_holder(path) == os.getpid()
    lock.release()
