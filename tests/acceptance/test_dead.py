"""A job that died is corrected, replayed and completed, through the real command and kill -9."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving, environment
from tests.api.support import PATIENCE

CONFIG = """
[defaults]
max_retries = 1
backoff = { base = "10ms", jitter = "0s" }
[types.post]
command = ["grep", "@example.com"]
"""
WRONG, RIGHT = '{"to":"ann@exmaple.com","n":1.10}', '{"to": "ann@example.com", "n": 1.10}'


def command(daemon: Serving, *arguments: str) -> str:
    """What `jobqueued` prints beside the daemon."""
    done = subprocess.run(
        [sys.executable, "-m", "jobqueued", *arguments],
        cwd=daemon.place,
        env=environment(daemon.place),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wrong_payload_is_corrected_and_replayed_in_one_command(serve: Serve) -> None:
    daemon = serve(CONFIG)
    job_id = command(daemon, "submit", "post", WRONG).strip()
    assert daemon.wait(job_id)["status"] == "dead"
    command(daemon, "dlq", "replay", job_id, "--payload", RIGHT, "--note", "wrong domain")
    job = daemon.wait(job_id)
    assert (job["status"], job["attempt"], job["failures"]) == ("completed", 3, 0)
    history = daemon.get(f"/jobs/{job_id}/attempts")
    outcomes = [attempt["outcome"] for attempt in history["attempts"]]
    assert outcomes == ["failed", "failed", "completed"]
    [change] = history["changes"]
    assert (change["action"], change["note"], change["attempt"]) == ("replay", "wrong domain", 2)
    assert change["actor"] == f"user {getpass.getuser()}"
    assert change["payload_before"] == json.loads(WRONG)
    assert job["created_at"] < change["at"] <= job["finished_at"]
    lines = command(daemon, "show", job_id).rpartition("TRY")[2].splitlines()[1:]
    words = [line.split()[0 if line.startswith(" ") else 1] for line in lines]
    assert words == ["failed", "failed", "replay", "completed"]


def test_what_was_answered_outlasts_a_kill(serve: Serve) -> None:
    daemon = serve(CONFIG)
    ids = [daemon.submit("post", payload="bad")["id"] for _ in range(4)]
    assert {daemon.wait(job_id)["status"] for job_id in ids} == {"dead"}
    corrected = {"payload": "x@example.com", "note": "once more"}
    assert daemon.post(f"/dlq/{ids[0]}/replay", corrected).status == 200
    assert daemon.post(f"/dlq/{ids[1]}/discard", {"note": "no use"}).status == 200
    paced = {"type": "post", "delay_seconds": 3600}
    assert daemon.post("/dlq/replay", paced).document["ids"] == ids[2:]
    daemon.kill()
    daemon.start()
    assert daemon.wait(ids[0])["status"] == "completed"
    assert [daemon.job(job_id)["status"] for job_id in ids[1:]] == [
        "discarded", "scheduled", "scheduled",
    ]  # fmt: skip
    notes = [
        [change["note"] for change in daemon.get(f"/jobs/{job_id}/attempts")["changes"]]
        for job_id in ids
    ]
    assert notes == [["once more"], ["no use"], [None], [None]]
    assert daemon.get("/stats")["dlq_depth"] == 0


def test_a_replayed_job_has_its_retries_again(serve: Serve) -> None:
    daemon = serve(CONFIG)
    job_id = daemon.submit("post", payload="bad")["id"]
    for attempts in (2, 4, 6):
        assert (job := daemon.wait(job_id))["status"] == "dead"
        assert (job["attempt"], job["failures"]) == (attempts, 2)
        assert daemon.post(f"/dlq/{job_id}/replay").status == 200
    assert daemon.wait(job_id)["attempt"] == 8
