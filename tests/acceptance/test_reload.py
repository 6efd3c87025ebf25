"""SIGHUP: another configuration without a restart, or the old one when it is bad."""

from __future__ import annotations

import signal

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving
from tests.api.support import until

ECHO = '[types.echo]\ncommand = ["cat"]\nresult = "stdout"\n'


def reload(serving: Serving, config: str, says: str = "configuration reloaded") -> None:
    """Another configuration, and what the log says to it."""
    seen = serving.log().count(says)
    serving.configure(config)
    serving.signal(signal.SIGHUP)
    serving.until_logged(says, seen + 1)


def test_a_new_type_can_be_used_at_once(serve: Serve) -> None:
    serving = serve(GATED)
    assert serving.post("/jobs", {"type": "echo"}).status == 400
    reload(serving, GATED + ECHO)
    assert serving.finish("echo", payload=[1])["result"] == [1]


def test_a_pool_grows_and_shrinks_without_stopping_what_runs(serve: Serve) -> None:
    serving = serve("[pools.default]\nworkers = 1\n" + GATED)
    jobs = [serving.submit("gate")["id"] for _ in range(4)]
    serving.until_at_gate(jobs[0])
    reload(serving, "[pools.default]\nworkers = 3\n" + GATED)
    until(lambda: serving.get("/stats")["pools"]["default"] == {"workers": 3, "busy": 3})
    reload(serving, "[pools.default]\nworkers = 2\n" + GATED)
    assert serving.get("/stats")["pools"]["default"] == {"workers": 2, "busy": 3}
    serving.let_through(jobs[0])
    assert serving.wait(jobs[0])["failures"] == 0
    until(lambda: serving.get("/stats")["pools"]["default"]["busy"] == 2)
    assert serving.job(jobs[3])["status"] == "pending"
    serving.let_all_through(jobs[1:])


def test_a_bad_file_changes_nothing_and_every_fault_is_named(serve: Serve) -> None:
    serving = serve(ECHO)
    bad = '[types.echo]\ncomand = ["false"]\ntimeout = "soon"\n'
    reload(serving, bad, "configuration not reloaded")
    assert all(fault in serving.log() for fault in ("comand", "did you mean", "timeout"))
    assert serving.finish("echo", payload=[1])["result"] == [1]
    reload(serving, ECHO + GATED)
    assert serving.at_gate()


def test_what_needs_a_restart_is_named_and_stays_until_then(serve: Serve) -> None:
    serving = serve(ECHO)
    reload(serving, ECHO + "[queue]\nmax_depth = 7\n")
    text = serving.config_path.read_text()
    serving.config_path.write_text(text.replace("jobs.db", "others.db"))
    serving.signal(signal.SIGHUP)
    serving.until_logged("store.path has changed: it takes effect after a restart")
    assert serving.finish("echo")["status"] == "completed"
    assert not (serving.place / "others.db").exists()
    assert "server.listen has changed" not in serving.log()


def test_jobs_of_a_removed_type_wait_until_it_is_back(serve: Serve) -> None:
    serving = serve(ECHO + GATED)
    job_id = serving.submit("echo", payload=[1], delay_seconds=0.5)["id"]
    reload(serving, GATED)
    assert serving.post("/jobs", {"type": "echo"}).status == 400
    until(lambda: serving.type_counts("echo") == {"pending": 1})
    assert serving.job(job_id)["status"] == "pending"
    errors = serving.get("/stats")["errors"]
    assert set(errors.values()) == {0}
    reload(serving, ECHO + GATED)
    assert serving.wait(job_id)["result"] == [1]


def test_a_job_that_runs_outlives_the_removal_of_its_type(serve: Serve) -> None:
    serving = serve(ECHO + GATED)
    job_id = serving.at_gate()
    reload(serving, ECHO)
    serving.let_through(job_id)
    assert serving.wait(job_id)["status"] == "completed"


def test_new_limits_hold_for_jobs_that_wait_already(serve: Serve) -> None:
    serving = serve(ECHO + GATED + "max_running = 1\n")
    jobs = [serving.submit("gate")["id"] for _ in range(3)]
    serving.until_at_gate(jobs[0])
    reload(serving, ECHO + GATED + "max_running = 3\n")
    serving.until_at_gate(jobs[2])
    assert serving.type_counts("gate") == {"processing": 3}


def test_a_reload_is_heard_from_the_moment_the_daemon_is_ready(prepare: Serve) -> None:
    serving = prepare(ECHO)
    for number in range(5):
        serving.launch()
        while not is_ready(serving):
            pass
        serving.signal(signal.SIGHUP)
        serving.until_logged("configuration reloaded", number + 1)
        assert serving.stop() == 0


def is_ready(serving: Serving) -> bool:
    try:
        return serving.ask("GET", "/readyz").status == 200
    except OSError:
        return False
