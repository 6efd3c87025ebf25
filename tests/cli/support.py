"""A daemon of its own for a test, and the command line pointed at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
"""Seconds within which everything these tests wait for has happened."""

Done = subprocess.CompletedProcess[str]

CONFIG = """
[server]
listen = ["unix:{place}/jobqueued.sock"]
[store]
path = "{place}/jobs.db"
[defaults]
max_retries = 0
backoff = {{ base = "1h", jitter = "0s" }}
env = {{ PYTHONPATH = "{root}", GATE = "{place}/gate" }}

[types.greet]
command = ["sh", "-c", "read name; echo \\"$name\\""]
result = "stdout"
[types.fail]
command = ["sh", "-c", "echo it went wrong >&2; exit 3"]
breaker = false
[types.picky]
command = ["grep", "good"]
breaker = false
payload_schema.properties.to.type = "string"
[types.marked]
command = ["false"]
confirm_replay = true
breaker = false
[types.quiet]
command = ["true"]
[types.gate]
command = ["sh", "-c", "echo at the gate; read word < $GATE; echo $word"]
[types.report]
command = ["sh", "-c", "{python} -m jobqueued progress 40 resizing && read word < $GATE"]
"""


def environment(home: Path) -> dict[str, str]:
    """What a command sees of the outside: nothing but a home of its own."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
    }


def run_command(home: Path, *arguments: str, stdin: str = "", **variables: str) -> Done:
    """Run `jobqueued ARGUMENTS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "jobqueued", *arguments],
        cwd=home,
        env=environment(home) | variables,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def until(happened: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is yes; what it was is handed back."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return answer


class Serving:
    """A daemon in its own directory, found there by its `jobqueued.toml`."""

    def __init__(self, place: Path, config: str = CONFIG) -> None:
        self.place = place
        self.database = place / "jobs.db"
        self.gate = place / "gate"
        os.mkfifo(self.gate)
        text = config.format(place=place, root=ROOT, python=sys.executable)
        (place / "jobqueued.toml").write_text(text)
        self.start()

    def start(self) -> None:
        """Start the daemon and wait until it takes jobs."""
        with (self.place / "serve.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jobqueued", "serve"],
                cwd=self.place,
                env=environment(self.place),
                stderr=log,
                stdout=log,
            )
        until(self._is_ready)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, (self.place / "serve.log").read_text()
        status = run_command(self.place, "status", "--json")
        return status.returncode == 0 and json.loads(status.stdout).get("ready") is True

    def stop(self) -> int:
        """Stop it in order; the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Done:
        """Run the command line where the daemon lives."""
        return run_command(self.place, *arguments, stdin=stdin, **variables)

    def submit(self, *arguments: str, stdin: str = "") -> str:
        """Submit a job; its id."""
        done = self.run("submit", *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, job_id: str) -> dict[str, Any]:
        """The job as `show --json` has it."""
        done = self.run("show", job_id, "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def at_the_gate(self, *arguments: str) -> str:
        """Submit a job that runs until the gate opens; its id once it runs."""
        job_id = self.submit("gate", *arguments)
        until(lambda: self.job(job_id)["status"] == "processing")
        return job_id

    def open_gate(self, word: str = "go") -> None:
        """Let the job that waits there go on."""
        self.gate.write_text(f"{word}\n")
