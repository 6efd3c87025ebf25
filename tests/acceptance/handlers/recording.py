"""A handler that notes when it starts and ends, and whether it is the only one for its job."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from pathlib import Path

PLACE = Path(sys.argv[1])


def note(word: str) -> None:
    """One line in one write: lines of several processes never mix."""
    line = f"{word} {os.environ['JOB_ID']} {os.environ['JOB_ATTEMPT']} {time.time()}\n"
    descriptor = os.open(PLACE / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def hold_alone() -> None:
    """Hold the lock of the job for as long as this process lives."""
    descriptor = os.open(PLACE / "locks" / os.environ["JOB_ID"], os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")


hold_alone()
note("start")
time.sleep(json.load(sys.stdin)["seconds"])
note("end")
