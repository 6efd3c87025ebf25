"""Files that are not what the daemon left: single bits that flipped, strays beside the database."""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.support import Serving
from tests.api.support import PATIENCE
from tests.fault.clients import NO_ANSWER
from tests.fault.faults import trial
from tests.fault.table import Row

DAMAGED = 65
JOBS = 40
BUILDING = """
[types.echo]
remote = true
"""
WORKING = """
[pools.default]
workers = 20
[types.echo]
command = ["cat"]
result = "stdout"
max_retries = 0
"""


def build(place: Path) -> dict[str, Any]:
    """A sound database with jobs that wait; their payloads by id."""
    place.mkdir()
    serving = Serving(place, BUILDING).start()
    payloads = {}
    for number in range(JOBS):
        payload = {"number": number, "text": secrets.token_hex(random.choice([8, 200, 3000]))}
        payloads[serving.submit("echo", payload=payload)["id"]] = payload
    assert serving.stop() == 0
    return payloads


def serving_copy(sound: Path, place: Path) -> Serving:
    """A daemon, not started yet, that has a copy of the database."""
    place.mkdir()
    shutil.copy(sound / "jobs.db", place / "jobs.db")
    return Serving(place, WORKING)


def flip_a_bit(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


@trial("a bit flips in the database", times=60)
async def flip_bits(place: Path, times: int) -> Row:
    """The file is refused, or whatever is done is done with what was submitted."""
    row = Row("a bit flips in the database")
    payloads = await asyncio.to_thread(build, place / "sound")
    size = (place / "sound" / "jobs.db").stat().st_size
    for number in range(times):
        where, bit = random.randrange(size), random.randrange(8)
        serving = serving_copy(place / "sound", place / str(number))
        flip_a_bit(serving.place / "jobs.db", where, bit)
        for text in await asyncio.to_thread(faults_of, serving, payloads):
            row.violations += 1
            row.remarks.append(f"bit {bit} of byte {where}: {text}")
        row.times += 1
        shutil.rmtree(serving.place)
    return row


def faults_of(serving: Serving, payloads: dict[str, Any]) -> list[str]:
    """Let a daemon work on a damaged file; what it did that it should not have done."""
    serving.launch()
    try:
        jobs = work_off(serving, payloads)
        if serving.process.poll() is None:
            serving.process.terminate()
        code = serving.process.wait(PATIENCE)
    finally:
        serving.clean_up()
    found = [] if code in (0, DAMAGED) else [f"exit {code}: {serving.log()[-300:]}"]
    if " failed\nTraceback" in serving.log():
        found.append(serving.log()[-1000:])
    for job in jobs:
        if job["status"] == "completed" and job["result"] != payloads[job["id"]]:
            found.append(f"job {job['id']} was run with {job['payload']}")
    return found


def work_off(serving: Serving, payloads: dict[str, Any]) -> list[Any]:
    """The jobs that kept their ids, once nothing more happens; none when the file is refused."""
    try:
        serving.until_ready()
        kept = [job["id"] for job in serving.all_jobs() if job["id"] in payloads]
        return [serving.wait(id_) for id_ in kept]
    except (AssertionError, KeyError, *NO_ANSWER):
        return []
