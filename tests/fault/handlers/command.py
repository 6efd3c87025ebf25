"""The handler of the types that run a command: `command.py PLACE`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from tests.fault.handlers.notes import Failed, Notes, conclude


def main() -> int:
    payload = json.load(sys.stdin)
    job_id, attempt = os.environ["JOB_ID"], int(os.environ["JOB_ATTEMPT"])
    if payload["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Notes(sys.argv[1], "command").execution(job_id, attempt):
            time.sleep(payload["seconds"])
            result = conclude(payload, attempt)
    except Failed:
        return 64 if payload["fatal"] else 1
    print(json.dumps(result))
    return 0


sys.exit(main())
