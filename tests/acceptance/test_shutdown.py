"""SIGTERM: in named stages, nothing lost, nothing charged, HTTP up to the last."""

from __future__ import annotations

import re
import signal
import time

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving, is_refused_for_now
from tests.api.support import PATIENCE, until

ALL_STAGES = ["refuse", "hold", "drain", "terminate", "kill", "flush", "close", "end"]
POLITE_STAGES = ["refuse", "hold", "drain", "terminate", "flush", "close", "end"]
QUICK_STAGES = ["refuse", "hold", "drain", "flush", "close", "end"]

SLOW_STOP = '[shutdown]\ndrain_timeout = "10m"\nkill_timeout = "10m"\n'
SHORT_STOP = '[shutdown]\ndrain_timeout = "300ms"\nkill_timeout = "5s"\n'
STUBBORN = """
[types.stubborn]
command = ["sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.05; done"]
kill_grace = "10m"
"""


def stages(serving: Serving) -> list[str]:
    """The stages the last shutdown went through."""
    found = re.findall(r"shutdown stage (\w+)", serving.log())
    return found[len(found) - found[::-1].index("refuse") - 1 :]


def exit_code(serving: Serving) -> int:
    return serving.process.wait(PATIENCE)


def begin_to_stop(serving: Serving) -> None:
    """SIGTERM, and wait until it is known."""
    serving.signal(signal.SIGTERM)
    serving.until_logged("shutdown stage drain")


def stubborn_job(serving: Serving) -> str:
    """A job whose handler is past the point where SIGTERM could end it."""
    job_id = serving.running("stubborn")
    until(lambda: serving.ask("GET", f"/jobs/{job_id}/logs").body == b"here\n")
    return job_id


def test_the_stages_come_in_order_and_running_jobs_may_finish(serve: Serve) -> None:
    serving = serve(SLOW_STOP + GATED)
    job_id = serving.at_gate()
    begin_to_stop(serving)
    serving.let_through(job_id)
    assert exit_code(serving) == 0
    assert stages(serving) == QUICK_STAGES
    serving.start()
    assert serving.job(job_id)["status"] == "completed"


def test_http_answers_through_the_drain(serve: Serve) -> None:
    serving = serve(SLOW_STOP + GATED)
    first, second = serving.at_gate(), serving.at_gate()
    begin_to_stop(serving)
    refused = serving.post("/jobs", {"type": "gate"})
    assert is_refused_for_now(refused, 503, "shutting_down")
    batch = serving.post("/jobs/batch", {"jobs": [{"type": "gate"}]})
    assert is_refused_for_now(batch, 503, "shutting_down")
    ready = serving.ask("GET", "/readyz")
    assert (ready.status, ready.document["reasons"]) == (503, ["shutting down"])
    assert serving.ask("GET", "/healthz").status == 200
    assert serving.get("/stats")["draining"] is True
    serving.let_through(first)
    assert serving.wait(first)["status"] == "completed"
    assert serving.post(f"/jobs/{second}/cancel").status == 200
    assert exit_code(serving) == 0
    serving.start()
    assert serving.job(second)["status"] == "cancelled"


def test_jobs_that_wait_are_not_started_any_more(serve: Serve) -> None:
    serving = serve(SLOW_STOP + "[pools.default]\nworkers = 1\n" + GATED)
    running = serving.at_gate()
    waiting = serving.submit("gate")["id"]
    begin_to_stop(serving)
    serving.let_through(running)
    assert exit_code(serving) == 0
    serving.start()
    job = serving.until_status(waiting, "processing")
    assert (job["attempt"], job["failures"]) == (1, 0)
    serving.let_through(waiting)
    assert serving.wait(waiting)["status"] == "completed"


def test_handlers_that_take_too_long_are_told_to_stop_and_run_again(serve: Serve) -> None:
    serving = serve(SHORT_STOP + GATED)
    job_id = serving.at_gate()
    assert serving.stop() == 0
    assert stages(serving) == POLITE_STAGES
    serving.start()
    serving.let_through(job_id)
    job = serving.wait(job_id)
    assert (job["status"], job["failures"], job["attempt"]) == ("completed", 0, 2)
    assert [one["outcome"] for one in serving.attempts(job_id)] == ["interrupted", "completed"]


def test_what_was_interrupted_goes_before_what_waits(serve: Serve) -> None:
    serving = serve(SHORT_STOP + "[pools.default]\nworkers = 1\n" + GATED)
    first = serving.at_gate()
    second = serving.submit("gate")["id"]
    assert serving.stop() == 0
    serving.start()
    until(lambda: serving.get("/stats")["counts"]["processing"] == 1)
    assert serving.job(second)["status"] == "pending"
    assert serving.job(first)["attempt"] == 2


def test_a_handler_that_ignores_the_request_is_killed(serve: Serve) -> None:
    serving = serve('[shutdown]\ndrain_timeout = "100ms"\nkill_timeout = "300ms"\n' + STUBBORN)
    job_id = stubborn_job(serving)
    started = time.monotonic()
    assert serving.stop() == 0
    assert time.monotonic() - started < 10
    assert stages(serving) == ALL_STAGES
    assert serving.processes() == set()
    serving.configure('[types.stubborn]\ncommand = ["true"]\n')
    serving.start()
    job = serving.wait(job_id)
    assert (job["status"], job["failures"]) == ("completed", 0)


def test_each_further_signal_skips_a_stage(serve: Serve) -> None:
    serving = serve(SLOW_STOP + STUBBORN)
    job_id = stubborn_job(serving)
    begin_to_stop(serving)
    serving.signal(signal.SIGTERM)
    serving.until_logged("shutdown stage terminate")
    assert serving.process.poll() is None
    serving.signal(signal.SIGINT)
    assert exit_code(serving) == 0
    assert stages(serving) == ALL_STAGES
    serving.start()
    attempts = until(lambda: found if len(found := serving.attempts(job_id)) == 2 else None)
    assert attempts[0]["outcome"] == "interrupted"


def test_long_polls_end_with_the_daemon(serve: Serve) -> None:
    serving = serve(SHORT_STOP + GATED)
    job_id = serving.at_gate()
    connection = serving.connection()
    connection.request("GET", f"/jobs/{job_id}?wait=60")
    assert serving.stop() == 0
    assert connection.getresponse().status in (200, 503)
    connection.close()


def test_nothing_is_left_on_the_disk_but_the_database(serve: Serve) -> None:
    serving = serve(GATED)
    job_id = serving.at_gate()
    serving.let_through(job_id)
    assert serving.stop() == 0
    ours = {"jobqueued.toml", "serve.log", "gate.sh", f"gate-{job_id}"}
    left = {entry.name for entry in serving.place.iterdir()} - ours
    assert left == {"jobs.db", "jobs.db.lock", "jobs.db.reserve"}
