"""A daemon with nothing to do: no processor time, no SQL, little memory."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, bytes_moved, cpu_seconds, resident_megabytes, wake_ups
from tests.api.support import until

IDLE_MEGABYTES = 60
FULL_MEGABYTES = 120
FULL_DEPTH = 100_000
BATCH = 100
CONFIG = '[types.quick]\ncommand = ["true"]\n'


@pytest.mark.parametrize(
    ("seconds", "most_cpu"),
    [
        pytest.param(5, 0.05, id="5-seconds"),
        pytest.param(30, 0.1, id="30-seconds", marks=pytest.mark.soak),
    ],
)
@pytest.mark.xdist_group("measured alone")
def test_an_idle_daemon_does_nothing(serve: Serve, seconds: int, most_cpu: float) -> None:
    serving = with_one_job_in_an_hour(serve)
    daemon, launcher = serving.process.pid, serving.launcher()
    commits = serving.get("/stats")["store"]["commits"]
    until_settled(daemon)
    used, threads, moved = cpu_seconds(daemon, launcher), wake_ups(daemon), bytes_moved(daemon)
    time.sleep(seconds)
    spent = cpu_seconds(daemon, launcher) - used
    print(f"{spent:.2f} s of CPU in {seconds} s")
    assert spent < most_cpu
    assert wake_ups(daemon) == threads
    assert bytes_moved(daemon) == moved
    assert serving.get("/stats")["store"]["commits"] == commits


def with_one_job_in_an_hour(serve: Serve) -> Serving:
    """A daemon that has worked, and has a job scheduled."""
    serving = serve(CONFIG)
    assert serving.finish("quick")["status"] == "completed"
    job = serving.submit("quick", delay_seconds=3600)
    assert job["status"] == "scheduled"
    return serving


def until_settled(pid: int) -> None:
    """Wait until the last connection is closed and no thread has anything left to do."""
    seen: list[object] = []

    def is_quiet() -> bool:
        seen.append((wake_ups(pid), bytes_moved(pid)))
        return len(seen) > 20 and all(one == seen[-1] for one in seen[-20:])

    until(is_quiet)


def test_idle_memory(serve: Serve) -> None:
    serving = with_one_job_in_an_hour(serve)
    used = resident_megabytes(serving.process.pid, serving.launcher())
    print(f"idle: {used:.1f} MB")
    assert used < IDLE_MEGABYTES


@pytest.mark.parametrize("fields", [{"delay_seconds": 3600}, {}], ids=["scheduled", "pending"])
def test_memory_with_a_full_queue(serve: Serve, fields: dict[str, object]) -> None:
    serving = serve(CONFIG + "[types.held]\nmax_running = 1\ncommand = ['sleep', '600']\n")
    serving.running("held")
    started = time.monotonic()
    jobs = [{"type": "held", "payload": {"number": number}} | fields for number in range(BATCH)]
    for _ in range(FULL_DEPTH // BATCH):
        assert serving.post("/jobs/batch", {"jobs": jobs}).status == 201
    taken = time.monotonic() - started
    used = resident_megabytes(serving.process.pid, serving.launcher())
    print(f"{FULL_DEPTH} jobs waiting: {used:.1f} MB; submitted in {taken:.1f} s")
    assert sum(serving.get("/stats")["counts"].values()) == FULL_DEPTH + 1
    assert used < FULL_MEGABYTES
    assert serving.post("/jobs", {"type": "held"}).status == 429
