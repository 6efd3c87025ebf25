"""The real command with a configuration of the test's own, and looks at it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.api.support import PATIENCE, ROOT, Daemon, Reply, UnixConnection, until

TERMINAL = {"completed", "dead", "cancelled", "expired"}
TICKS = os.sysconf("SC_CLK_TCK")

BASE = """
[server]
listen = ["unix:{place}/api.sock"]
[store]
path = "{place}/jobs.db"
"""

GATE = """
command = ["sh", "gate.sh"]
cwd = "{place}"
kill_grace = "200ms"
"""
"""The handler of jobs that run until they are let through."""
GATE_SCRIPT = """
mkfifo -m 600 gate-$JOB_ID
echo at the gate
read word < gate-$JOB_ID
echo $word
"""
GATED = "[types.gate]" + GATE


class Serving(Daemon):
    """`jobqueued serve` with any configuration; it can be killed, restarted and told to reload."""

    def __init__(self, place: Path, config: str) -> None:
        self.place = place
        self.socket_path = place / "api.sock"
        self.config_path = place / "jobqueued.toml"
        (place / "gate.sh").write_text(GATE_SCRIPT)
        self.configure(config)

    def configure(self, config: str) -> None:
        """Write the configuration; where it listens and stores is added."""
        self.config_path.write_text(filled_in(BASE + config, self.place))

    def launch(self, *wrapper: str, **variables: str) -> None:
        """Start the process, inside another command where one is given; wait for nothing."""
        self.launched_at = time.time()
        with (self.place / "serve.log").open("a") as log:
            self.process = subprocess.Popen(
                [*wrapper, *serve_command(self.config_path)],
                cwd=self.place,
                env=environment(self.place) | variables,
                stdout=log,
                stderr=log,
            )

    def start(self, *wrapper: str, **variables: str) -> Serving:
        """Start the process and wait until it takes jobs."""
        self.launch(*wrapper, **variables)
        self.until_ready()
        return self

    def until_ready(self) -> None:
        """Wait until it takes jobs."""
        until(lambda: self.process.poll() is not None or self._is_ready())
        assert self.process.poll() is None, f"exit {self.process.returncode}: {self.log()}"

    def connection(self, *, over_unix: bool = True) -> HTTPConnection:
        return UnixConnection(self.socket_path)

    def kill(self) -> None:
        """kill -9, and nothing else: what it leaves behind is the next daemon's affair."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def clean_up(self) -> None:
        """Leave no process behind, however the test went."""
        if hasattr(self, "process") and self.process.poll() is None:
            self.kill()
        until(lambda: not self.processes())

    def processes(self) -> set[int]:
        """The daemon, its launcher and every handler: all have its directory as their home."""
        return {pid for pid in every_process() if self._is_ours(pid)}

    def _is_ours(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"HOME={self.place}".encode() in environ

    def launcher(self) -> int:
        """The process that starts the handlers; there is one once a job has run."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def job(self, job_id: str) -> Any:
        return self.get(f"/jobs/{job_id}")

    def attempts(self, job_id: str) -> list[Any]:
        found: list[Any] = self.get(f"/jobs/{job_id}/attempts")["attempts"]
        return found

    def wait(self, job_id: str) -> Any:
        """The job when it has ended."""
        job = self.get(f"/jobs/{job_id}?wait={PATIENCE}")
        assert job["status"] in TERMINAL, job
        return job

    def running(self, kind: str, **fields: object) -> str:
        """Submit a job; its id once a worker has it."""
        job_id: str = self.submit(kind, **fields)["id"]
        self.until_status(job_id, "processing")
        return job_id

    def at_gate(self, kind: str = "gate", **fields: object) -> str:
        """Submit a job that runs until it is let through; its id once it is there."""
        job_id: str = self.submit(kind, **fields)["id"]
        self.until_at_gate(job_id)
        return job_id

    def until_at_gate(self, job_id: str) -> None:
        """Wait until the handler waits too."""
        until(lambda: b"at the gate\n" in self.ask("GET", f"/jobs/{job_id}/logs").body)

    def let_through(self, job_id: str, word: str = "go") -> None:
        """Let a job go on that waits at its gate."""
        (self.place / f"gate-{job_id}").write_text(f"{word}\n")

    def let_all_through(self, job_ids: Iterable[str]) -> None:
        """Open the gates of jobs, in whatever order they come there; all complete."""
        waiting = list(job_ids)
        for job_id in waiting:
            self.let_through(job_id)
        assert {self.wait(job_id)["status"] for job_id in waiting} == {"completed"}

    def until_status(self, job_id: str, status: str) -> Any:
        """The job once it is there."""
        return until(lambda: job if (job := self.job(job_id))["status"] == status else None)

    def type_counts(self, kind: str) -> dict[str, int]:
        """How many jobs of a type there are in each status."""
        found: dict[str, int] = self.get("/stats")["types"][kind]["counts"]
        return found

    def all_jobs(self) -> list[Any]:
        """Every job there is, page by page."""
        found: list[Any] = []
        path = "/jobs?limit=500"
        while True:
            page = self.get(path)
            found += page["jobs"]
            if page["next_cursor"] is None:
                return found
            path = f"/jobs?limit=500&cursor={page['next_cursor']}"

    def until_logged(self, text: str, times: int = 1) -> None:
        """Wait until the log says so."""
        until(lambda: self.log().count(text) >= times)


def filled_in(config: str, place: Path) -> str:
    """The configuration with the places of this test; braces are TOML's too."""
    names = {"{place}": str(place), "{root}": str(ROOT), "{python}": sys.executable}
    for name, value in names.items():
        config = config.replace(name, value)
    return config


def serve_command(config_path: Path) -> list[str]:
    return [sys.executable, "-m", "jobqueued", "serve", "--config", str(config_path)]


def environment(home: Path) -> dict[str, str]:
    """What a daemon sees of the outside: nothing but a home of its own."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(home)}


def serve_to_the_end(
    place: Path, config: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a daemon that is expected to give up by itself."""
    path = place / "jobqueued.toml"
    path.write_text(filled_in(config, place))
    return subprocess.run(
        serve_command(path),
        cwd=place,
        env=environment(place) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def every_process() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def cpu_seconds(*pids: int) -> float:
    """Processor time used so far, in user and system mode together."""
    return sum(_ticks(pid) for pid in pids) / TICKS


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_megabytes(pid: int, *others: int) -> float:
    """Memory in use now: all of the first process, of the others what they do not share."""
    whole = int(process_status(f"/proc/{pid}", "VmRSS").split()[0])
    return (whole + sum(_own_kilobytes(other) for other in others)) / 1024


def _own_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def wake_ups(pid: int) -> dict[str, int]:
    """How often each thread but the first has gone to sleep; SQL runs in those threads only."""
    threads = [name for name in os.listdir(f"/proc/{pid}/task") if name != str(pid)]
    return {
        thread: int(process_status(f"/proc/{pid}/task/{thread}", "voluntary_ctxt_switches"))
        for thread in threads
    }


def bytes_moved(pid: int) -> dict[str, str]:
    """What the process has read and written so far, in bytes and in calls."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return dict(line.split(": ") for line in lines)


def process_status(place: str, name: str) -> str:
    """A field of a process's or thread's status."""
    for line in Path(place, "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise KeyError(name)


def is_refused_for_now(reply: Reply, status: int, code: str) -> bool:
    """Whether a problem document says so, and when to come back."""
    headers: Mapping[str, str] = reply.headers
    return (
        reply.status == status
        and reply.document["code"] == code
        and int(headers["Retry-After"]) >= 1
    )
