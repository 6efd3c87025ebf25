"""What the benchmarks share: figures, a daemon of their own, and what the kernel says of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds within which everything a benchmark waits for has happened."""
MEGABYTE = 1_000_000
FULL_BATCH = 100

CONFIG = """
[server]
listen = ["127.0.0.1:{port}"]
[store]
path = "{place}/jobs.db"
durability = "full"
[queue]
max_depth = 100000000
[shutdown]
drain_timeout = "0s"
kill_timeout = "1s"
[pools.default]
workers = 10
# A type that shares its pool does not get all of its workers.
[pools.python]
workers = 10
[pools.held]
workers = 1
[pools.clock]
workers = 1

# One runs for ever, all others wait behind it.
[types.hold]
command = ["sleep", "3600"]
pool = "held"
timeout = "2h"
[types.nothing]
command = ["/bin/true"]
# Its result is the moment it ran, in nanoseconds.
[types.clock]
command = ["/bin/date", "+%s%N"]
pool = "clock"
result = "stdout"

[types.python_nothing]
python = "benchmarks.handlers:nothing"
python_path = ["{root}"]
pool = "python"
[types.python_clock]
python = "benchmarks.handlers:clock"
python_path = ["{root}"]
pool = "clock"
[types.remote_nothing]
remote = true
[types.remote_clock]
remote = true
[types.http_clock]
pool = "clock"
http = {{ url = "http://127.0.0.1:{receiver}/" }}
"""


@dataclass(frozen=True)
class Required:
    """What must hold for a figure, or for its ratio to the reference."""

    sign: str
    bound: float
    of_ratio: bool = False

    def holds(self, number: float) -> bool:
        """Whether `number` is within the bound."""
        if self.sign == "at least":
            return number >= self.bound
        return number <= self.bound if self.sign == "at most" else number < self.bound


@dataclass(frozen=True)
class Figure:
    """One line of the table; the reference has the unit of the figure."""

    name: str
    value: float
    unit: str
    reference: float | None = None
    against: str = ""
    required: Required | None = None

    @property
    def ratio(self) -> float | None:
        """The figure in terms of its reference."""
        return self.value / self.reference if self.reference else None

    @property
    def passed(self) -> bool | None:
        """Whether it is as required; None where nothing is."""
        if self.required is None:
            return None
        number = self.ratio if self.required.of_ratio else self.value
        return number is not None and self.required.holds(number)


def say(text: str) -> None:
    """Tell a person who waits how far it is."""
    print(text, file=sys.stderr, flush=True)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def until(happened: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is yes; what it was is handed back."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := happened()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} seconds")
        time.sleep(0.005)
    return answer


def free_port() -> int:
    """A port of the loopback that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Memory of a process that is really there."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = status.partition("VmRSS:")[2].split(maxsplit=1)[0]
    return int(kilobytes) * 1024 / MEGABYTE


def own_megabytes(pid: int) -> float:
    """Memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return kilobytes * 1024 / MEGABYTE


def children(pid: int) -> list[int]:
    """The processes a process has started from its main thread."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Others:
    """How much of the machine programs use that are none of ours."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = self._used()

    def cores(self) -> float:
        """The cores they kept busy since this was made; what we started must have ended."""
        return max(0.0, self._used() - self._before) / (time.monotonic() - self._began)

    def _used(self) -> float:
        first = Path("/proc/stat").read_text().partition("\n")[0]
        user, nice, system, _, _, hard, soft, *_ = (int(word) for word in first.split()[1:])
        ours = os.times()
        return (user + nice + system + hard + soft) / os.sysconf("SC_CLK_TCK") - sum(ours[:4])


class Daemon:
    """`python -m jobqueued serve` in a directory of its own."""

    def __init__(self, place: Path, further: str = "") -> None:
        self.place = place
        self.port = free_port()
        self._config = place / "jobqueued.toml"
        self._log = place / "serve.log"
        self.receiver_port = free_port()
        settings = {"place": place, "port": self.port, "receiver": self.receiver_port, "root": ROOT}
        self._config.write_text(CONFIG.format_map(settings))
        self.configure(further)
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            say(f"the daemon's log:\n{self._log.read_text()}")
        self.stop()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.place / "jobs.db"

    def configure(self, further: str) -> None:
        """Write what is in force beside the common settings."""
        file = self.place / "conf.d" / "further.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(further)

    def reload(self) -> None:
        """Have it read its configuration again."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End it, and wait until it has."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def start(self) -> None:
        """Start the daemon and wait until it takes jobs."""
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jobqueued", "serve", "--config", str(self._config)],
                cwd=self.place,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(ROOT),
                    "HOME": str(self.place),
                },
                stdout=log,
                stderr=log,
            )
        until(self._is_ready)

    def kill(self) -> None:
        """End it without a warning."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(self._log.read_text())
        try:
            return bool(self.ask("GET", "/readyz")["ready"])
        except ConnectionError:
            return False

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """One request on a connection of its own; the document it answers with."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status not in (200, 201, 503):
            raise RuntimeError(f"{method} {path}: {answer}")
        return answer

    def fill(self, count: int, **fields: object) -> None:
        """Submit so many jobs, in full batches."""
        batch = {"jobs": [fields] * FULL_BATCH}
        for _ in range(count // FULL_BATCH):
            self.ask("POST", "/jobs/batch", batch)

    def count(self, status: str) -> int:
        """How many jobs are in a status."""
        number: int = self.ask("GET", "/stats")["counts"][status]
        return number


def submission_to_start(daemon: Daemon, job_type: str) -> tuple[float, float]:
    """Milliseconds until a handler that tells the time ran, and until the caller had its result."""
    began = time.time_ns()
    job = daemon.ask("POST", "/jobs?wait=10", {"type": job_type})
    ended = time.time_ns()
    return (int(job["result"]) - began) / 1e6, (ended - began) / 1e6


@contextmanager
def fresh_daemon() -> Iterator[Daemon]:
    """A daemon on an empty database; both are gone afterwards."""
    with fresh_place() as place, Daemon(place) as daemon:
        yield daemon


@contextmanager
def fresh_place() -> Iterator[Path]:
    """An empty directory on a disk, for as long as it is needed."""
    with TemporaryDirectory(prefix="jobqueued-benchmark-") as place:
        yield Path(place)
