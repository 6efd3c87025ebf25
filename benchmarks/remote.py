"""Remote workers that take 100 jobs at a time, against bare SQLite doing the same; and latency.

Usage: python benchmarks/remote.py [JOBS]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobqueued.client import BlockingClient, Client, NewJob, Unreachable
from jobqueued.worker import Worker

ROOT = Path(__file__).resolve().parent.parent
AT_A_TIME = 100
WORKERS = 2
ROUNDS = 3
SINGLE = 300

CONFIG = """
[server]
listen = ["unix:{place}/jobqueued.sock"]
[store]
path = "{place}/jobs.db"
[queue]
max_depth = 100000000
[types.nothing]
remote = true
[types.clock]
remote = true
"""


def bare(place: Path, count: int) -> float:
    """Jobs a second that SQLite alone claims and finishes, in two transactions for each 100."""
    with closing(sqlite3.connect(place / "bare.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE jobs (seq INTEGER PRIMARY KEY, status TEXT, token TEXT)")
        database.execute("BEGIN")
        rows = ((number, "pending") for number in range(count))
        database.executemany("INSERT INTO jobs (seq, status) VALUES (?, ?)", rows)
        database.execute("COMMIT")
        began = time.perf_counter()
        for first in range(0, count, AT_A_TIME):
            for change in ("status = 'processing', token = 'x'", "status = 'completed'"):
                database.execute("BEGIN IMMEDIATE")
                for seq in range(first, first + AT_A_TIME):
                    database.execute(f"UPDATE jobs SET {change} WHERE seq = ?", (seq,))
                database.execute("COMMIT")
        return count / (time.perf_counter() - began)


@contextmanager
def daemon() -> Iterator[Path]:
    """A daemon on an empty database; its directory."""
    with TemporaryDirectory(prefix="jobqueued-benchmark-") as name:
        place = Path(name)
        (place / "jobqueued.toml").write_text(CONFIG.format(place=place))
        command = [sys.executable, "-m", "jobqueued", "serve"]
        surroundings = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": name}
        with (place / "serve.log").open("w") as log:
            process = subprocess.Popen(command, cwd=place, env=surroundings, stderr=log)
        try:
            wait_for(process, place)
            yield place
        finally:
            process.terminate()
            process.wait()


def wait_for(process: subprocess.Popen[bytes], place: Path) -> None:
    """Wait until the daemon answers; one that has ended says why."""
    client = BlockingClient(url_of(place), patience=0.0)
    while True:
        if process.poll() is not None:
            log = (place / "serve.log").read_text()
            raise RuntimeError(f"the daemon ended with {process.returncode}: {log}")
        try:
            client.stats()
            return
        except Unreachable:
            time.sleep(0.05)


def url_of(place: Path) -> str:
    """Where the daemon of a directory listens."""
    return f"unix:{place}/jobqueued.sock"


def drained(place: Path, count: int) -> float:
    """Jobs a second from the first start to the last end, as the attempts were recorded."""
    client = BlockingClient(url_of(place))
    client.submit_many(NewJob(type="nothing", payload=number) for number in range(count))
    command = [sys.executable, __file__, "--work", url_of(place)]
    workers = [subprocess.Popen(command) for _ in range(WORKERS)]
    while client.stats()["counts"]["completed"] < count:
        time.sleep(0.1)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    codes = [worker.wait() for worker in workers]
    if any(codes):
        raise RuntimeError(f"workers ended with {codes}")
    with closing(sqlite3.connect(f"file:{place}/jobs.db?mode=ro", uri=True)) as database:
        first, last, completed = database.execute(
            "SELECT min(started_at), max(finished_at), count(*) FROM attempts"
        ).fetchone()
    if completed != count:
        raise RuntimeError(f"{completed} attempts for {count} jobs")
    return count * 1000 / float(last - first)


def work(url: str) -> None:
    """Be one of the workers."""

    async def nothing(payload: Any) -> None:
        pass

    Worker(url, {"nothing": nothing}, concurrency=AT_A_TIME).run()


async def latencies(place: Path) -> list[float]:
    """Milliseconds from submission to the start of the handler, one job after the other."""

    async def started(payload: Any) -> int:
        return time.time_ns()

    worker = Worker(url_of(place), {"clock": started})
    serving = asyncio.create_task(worker.serve())
    took = []
    async with Client(url_of(place)) as client:
        for _ in range(SINGLE):
            submitted = time.time_ns()
            job = await client.submit("clock", wait=10)
            took.append((job.result - submitted) / 1e6)
    worker.stop()
    await serving
    return took


def main() -> None:
    """Print both rates and their ratio, the median of three rounds each, then the latency."""
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2])
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    bares, rates = [], []
    for _ in range(ROUNDS):
        with daemon() as place:
            bares.append(bare(place, count))
            rates.append(drained(place, count))
    with daemon() as place:
        took = sorted(asyncio.run(latencies(place)))
    print(f"bare SQLite, claim and finish   {median(bares):9,.0f} jobs/s")
    print(f"{WORKERS} workers, {AT_A_TIME} at a time        {median(rates):9,.0f} jobs/s")
    print(f"ratio                           {median(rates) / median(bares):9.0%}")
    print(f"submission to start, p50        {took[len(took) // 2]:9.2f} ms")
    print(f"submission to start, p99        {took[len(took) * 99 // 100]:9.2f} ms")


if __name__ == "__main__":
    main()
