"""Python handlers that break their process: it costs their own job, and nobody else anything."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving

APPLICATION = """
[pools.default]
workers = 6
[types.work]
python = "application:work"
python_path = ["{root}/tests/acceptance/handlers"]
memory = "256MiB"
timeout = "2s"
kill_grace = "200ms"
max_retries = 0
"""
BROKEN = {
    "crash": ("crashed", "killed by SIGSEGV.*: in string_at "),
    "spin": ("timeout", "timed out after 2s"),
    "leak": ("failed", "MemoryError"),
}
"""What a job does that breaks its process; how its attempt ends, and what it is told."""
LAG_SECONDS = 0.05
PROBE_SECONDS = 0.005
ROUNDS = 6


class Probe:
    """Asks the daemon for a sign of life again and again; `worst` is its slowest answer.

    An answer takes at least as long as the event loop is busy with something else.
    """

    def __init__(self, connection: HTTPConnection) -> None:
        self.worst = 0.0
        self._connection = connection
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask_on)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            self._connection.close()

    def _ask_on(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            began = time.perf_counter()
            self._connection.request("GET", "/healthz")
            assert self._connection.getresponse().read()
            self.worst = max(self.worst, time.perf_counter() - began)


@pytest.fixture
def python(serve: Serve) -> Serving:
    return serve(APPLICATION)


def ran_beside(job: dict[str, str], longer: dict[str, str]) -> bool:
    """Whether a job ran while the other did."""
    began = longer["started_at"] <= job["started_at"]
    return began and job["finished_at"] <= longer["finished_at"]


def break_three_among_many(python: Serving) -> float:
    """Jobs that break their processes among jobs that do not; the daemon's slowest answer."""
    probe = Probe(python.connection())
    with probe.watching():
        broken = {act: python.submit("work", payload=[act])["id"] for act in BROKEN}
        ids = [python.submit("work", payload=["echo", number])["id"] for number in range(60)]
        sound = [python.wait(job_id) for job_id in ids]
        assert [job["result"] for job in sound] == list(range(60))
        for act, (outcome, error) in BROKEN.items():
            job = python.wait(broken[act])
            [attempt] = python.attempts(job["id"])
            assert (job["status"], attempt["outcome"]) == ("dead", outcome)
            assert re.match(error, job["last_error"])
        spinning = python.job(broken["spin"])
        assert any(ran_beside(job, spinning) for job in sound)
    return probe.worst


def test_broken_handlers_hold_up_neither_their_type_nor_the_daemon(python: Serving) -> None:
    """A machine that is busy may answer late now and then, a daemon that waits does every time."""
    python.wait(python.submit("work", payload=["echo", 0])["id"])
    slowest: list[float] = []
    while not slowest or slowest[-1] >= LAG_SECONDS:
        assert len(slowest) < ROUNDS, f"the daemon was held up every time: {slowest}"
        slowest.append(break_three_among_many(python))
    print(f"slowest answers while handlers broke: {slowest} s")


LIVE = """
[types.live]
python = "live:wait"
python_path = ["{place}"]
"""
LIVE_SOURCE = """
def wait(gate):
    print("at the gate")
    open(gate).read()
    return {!r}
"""


def test_a_reload_brings_new_code_and_lets_what_runs_finish(prepare: Serve) -> None:
    serving = prepare(LIVE)
    module, gate = serving.place / "live.py", serving.place / "gate"
    module.write_text(LIVE_SOURCE.format("old"))
    os.mkfifo(gate)
    serving.start()
    running = serving.at_gate("live", payload=str(gate))
    module.write_text(LIVE_SOURCE.format("another"))
    serving.signal(signal.SIGHUP)
    serving.until_logged("configuration reloaded")
    assert serving.finish("live", payload=os.devnull)["result"] == "another"
    gate.write_text("")
    assert serving.wait(running)["result"] == "old"
    assert serving.finish("live", payload=os.devnull)["result"] == "another"
