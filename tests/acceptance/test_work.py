"""`jobqueued work` told to stop: what runs may finish, the rest is free again at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, environment
from tests.api.support import PATIENCE, until

LONG_LEASE = """
[types.task]
remote = true
lease = "1h"
timeout = "1h"
max_retries = 0
"""


@contextmanager
def working(serving: Serving, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`jobqueued work` with a command that waits at the gate of its job."""
    command = ["sh", "-c", f"cd '{serving.place}' && . ./gate.sh"]
    program = [sys.executable, "-m", "jobqueued", "work", "task", *options]
    process = subprocess.Popen(
        [*program, "--url", f"unix:{serving.socket_path}", "--", *command],
        env=environment(serving.place),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def at_the_gate(serving: Serving, count: int) -> list[str]:
    """Jobs whose command waits."""
    ids = [serving.submit("task")["id"] for _ in range(count)]
    until(lambda: all((serving.place / f"gate-{job_id}").exists() for job_id in ids))
    return ids


def end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)


def test_what_does_not_finish_in_time_is_handed_back(serve: Serve) -> None:
    serving = serve(LONG_LEASE)
    with working(serving, "--concurrency", "3", "--drain", "500ms") as process:
        ids = at_the_gate(serving, 3)
        waiting = serving.submit("task")["id"]
        assert end(process) == 0
    for job_id in ids:
        job = serving.job(job_id)
        assert (job["status"], job["failures"], job["lease_expires_at"]) == ("pending", 0, None)
        assert [one["outcome"] for one in serving.attempts(job_id)] == ["interrupted"]
    assert serving.job(waiting)["attempt"] == 0
    with working(serving, "--concurrency", "4"):
        until(lambda: (serving.place / f"gate-{waiting}").exists())
        serving.let_all_through([*ids, waiting])
    assert {serving.job(job_id)["attempt"] for job_id in ids} == {2}


def test_what_runs_may_finish(serve: Serve) -> None:
    serving = serve(LONG_LEASE)
    with working(serving, "--concurrency", "2", "--drain", "1h") as process:
        ids = at_the_gate(serving, 2)
        process.send_signal(signal.SIGTERM)
        until(lambda: serving.get("/stats")["remote"]["waiting"] == 0)
        late = serving.submit("task")["id"]
        serving.let_all_through(ids)
        assert process.wait(PATIENCE) == 0
    assert {serving.job(job_id)["attempt"] for job_id in ids} == {1}
    assert serving.job(late)["status"] == "pending"
