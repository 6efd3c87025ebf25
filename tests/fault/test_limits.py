"""Too few descriptors, processes or bytes for the daemon: jobs wait, and none is blamed."""

from __future__ import annotations

import os
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, every_process, process_status
from tests.api.support import PATIENCE, Reply

CONFIG = """
[pools.default]
workers = 20
max_share = 1.0
[defaults]
max_retries = 0
[types.nap]
command = ["sleep", "0.3"]
[types.echo]
command = ["cat"]
[types.function]
python = "limited:nap"
python_path = ["{place}"]
"""
FUNCTION = """
import time
def nap(payload):
    time.sleep(0.3)
"""
ROOM = 24 * 1024 * 1024
LIMIT = (
    "import os, resource, sys\n"
    "kind, value = int(sys.argv[1]), int(sys.argv[2])\n"
    "resource.setrlimit(kind, (value, value))\n"
    "os.execvp(sys.argv[3], sys.argv[3:])\n"
)


def limited(kind: int, value: int) -> tuple[str, ...]:
    """The command that runs another one under a limit."""
    return (sys.executable, "-c", LIMIT, str(kind), str(value))


@pytest.fixture
def serving(prepare: Serve) -> Serving:
    made = prepare(CONFIG)
    (made.place / "limited.py").write_text(FUNCTION)
    return made


def open_descriptors(serving: Serving) -> int:
    return len(os.listdir(f"/proc/{serving.process.pid}/fd"))


def address_space(serving: Serving) -> int:
    """Bytes it has asked for at most so far."""
    return int(process_status(f"/proc/{serving.process.pid}", "VmPeak").split()[0]) * 1024


def check_put_off(serving: Serving, reason: str) -> None:
    """Many jobs at once: some have to wait for room, and all complete at no cost."""
    ids = [serving.submit(kind)["id"] for kind in ("nap", "function") * 15]
    jobs = [serving.wait(job_id) for job_id in ids]
    assert {(job["status"], job["failures"]) for job in jobs} == {("completed", 0)}
    waited = [job["id"] for job in jobs if job["attempt"] > 1]
    assert waited, "there was room enough"
    first = serving.attempts(waited[0])[0]
    assert first["outcome"] == "interrupted"
    assert reason in first["error"]
    assert "jobs are put off" in serving.log()


def test_too_few_descriptors(serving: Serving) -> None:
    serving.start()
    serving.finish("echo")
    serving.finish("function")
    needed = open_descriptors(serving)
    assert serving.stop() == 0
    serving.start(*limited(resource.RLIMIT_NOFILE, needed + 20))
    check_put_off(serving, "Too many open files")
    assert serving.stop() == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="no limit on processes holds for root")
def test_too_few_processes(serving: Serving) -> None:
    serving.start(*limited(resource.RLIMIT_NPROC, threads_of_this_user() + 16))
    check_put_off(serving, "too many processes")
    assert serving.stop() == 0


def owner_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def threads_of_this_user() -> int:
    """What the limit counts: not processes but threads."""
    found = 0
    for pid in every_process():
        if owner_of(pid) == os.geteuid():
            with suppress(OSError):
                found += len(os.listdir(f"/proc/{pid}/task"))
    return found


def test_too_little_memory(serving: Serving) -> None:
    """It refuses for now, or dies: what it has acknowledged is there either way."""
    serving.start()
    size = address_space(serving)
    assert serving.stop() == 0
    serving.start(*limited(resource.RLIMIT_AS, size + ROOM))
    with ThreadPoolExecutor(6) as pool:
        replies = [reply for reply in pool.map(submit_much, [serving] * 24) if reply]
    assert {reply.status for reply in replies} <= {201, 503}
    refused = [reply for reply in replies if reply.status == 503]
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)
    kept = {job["id"] for reply in replies if reply.status == 201 for job in reply.document["jobs"]}
    assert len(replies) - len(refused) < 24, "there was memory enough"
    if serving.process.poll() is None:
        serving.kill()
    serving.process.wait(PATIENCE)
    serving.start()
    assert kept <= {job["id"] for job in serving.all_jobs()}


def submit_much(serving: Serving) -> Reply | None:
    """The answer to a batch of six megabytes, if there is one."""
    jobs = [{"type": "echo", "payload": "x" * 60_000, "delay_seconds": 3600}] * 100
    try:
        return serving.post("/jobs/batch", {"jobs": jobs})
    except (OSError, HTTPException):
        return None
