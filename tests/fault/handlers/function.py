"""The handler of the type that calls a Python function."""

from __future__ import annotations

import os
import time
from typing import Any

from jobqueued import Fatal
from tests.fault.handlers.notes import Failed, Notes, conclude


def perform(payload: Any, job: Any) -> dict[str, object]:
    """Do as the payload says."""
    try:
        with Notes(os.environ["FAULT_PLACE"], "function").execution(job.id, job.attempt):
            time.sleep(payload["seconds"])
            return conclude(payload, job.attempt)
    except Failed as failure:
        if payload["fatal"]:
            raise Fatal(str(failure)) from failure
        raise
