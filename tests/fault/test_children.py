"""Handlers that do not behave, under the whole daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import PATIENCE, until
from tests.fault import children  # noqa: F401
from tests.fault.kills import children_of
from tests.fault.short import suffer


async def test_launchers_and_daemons_are_killed_over_them(tmp_path: Path) -> None:
    await suffer(
        tmp_path,
        *["kill -9 of a launcher"] * 3,
        *["kill -9 while handlers try to get away"] * 2,
    )


CONFIG = """
[pools.default]
workers = 7
max_share = 1.0
[defaults]
timeout = "2s"
kill_grace = "200ms"
max_retries = 3
backoff = { base = "10ms", factor = 1.0, jitter = "0s" }
env = { PLACE = "{place}" }
"""
FIRST = 'test "$JOB_ATTEMPT" = 1 || exit 0; echo "$$" >> "$PLACE/pids"; '
HIDDEN = 'echo $$ >> "$STRAYS"; exec sleep 600'
"""Nothing that a process carries shows whose it is; so that the test can tell, it leaves its id."""
HANDLERS = {
    "deaf": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "daemonizing": f"(setsid env -i STRAYS=$strays sh -c '{HIDDEN}' &); exec setsid -w sleep 600",
    "holding": "sleep 600 & exec sleep 600",
    "flooding": "yes 'a line that says nothing'",
    "closing": "exec <&- >&- 2>&-; sleep 600",
    "forking": "while :; do sleep 600 & sleep 0.02; done",
    "hiding": f"exec env -i STRAYS=$strays setsid -w sh -c '{HIDDEN}'",
}
"""By type: what the first attempt does; every later one ends well."""
STRAYS = """
strays="$PLACE/strays-$JOB_ID"
for pid in $(cat "$strays" 2>/dev/null); do ! kill -0 $pid 2>/dev/null || exit 65; done
"""
"""Later attempts find out whether what the first one hid is still alive."""
HIDERS = 2


@pytest.fixture
def serving(prepare: Serve) -> Iterator[Serving]:
    types = [
        f"[types.{name}]\ncommand = ['sh', '-c', {toml_text(STRAYS + FIRST + script)}]\n"
        for name, script in HANDLERS.items()
    ]
    made = prepare(CONFIG + "".join(types)).start()
    yield made
    for pid in strays(made):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def toml_text(script: str) -> str:
    return '"""' + script.replace("\\", "\\\\") + '"""'


def submit_all(serving: Serving) -> list[str]:
    """One job of each kind; their ids once all of them run."""
    ids = [serving.submit(name)["id"] for name in HANDLERS]
    until(lambda: len(pids(serving)) == len(HANDLERS))
    until(lambda: len(strays(serving)) == HIDERS)
    return ids


def pids(serving: Serving) -> list[int]:
    """The handlers that have been started so far."""
    path = serving.place / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def strays(serving: Serving) -> list[int]:
    """The processes that handlers have hidden."""
    files = serving.place.glob("strays-*")
    return [int(line) for file in files for line in file.read_text().split()]


def check_nothing_left(serving: Serving) -> None:
    assert serving.processes() == set()
    assert [pid for pid in strays(serving) if Path(f"/proc/{pid}").exists()] == []


def check_second_attempts(serving: Serving, ids: list[str], outcome: str) -> None:
    """Each was ended as it should be, and its second attempt completed."""
    for job_id in ids:
        assert serving.wait(job_id)["status"] == "completed"
        outcomes = [attempt["outcome"] for attempt in serving.attempts(job_id)]
        assert outcomes == [outcome, "completed"]
    assert serving.stop() == 0
    check_nothing_left(serving)


def test_their_time_is_up(serving: Serving) -> None:
    check_second_attempts(serving, submit_all(serving), "timeout")


def test_the_daemon_is_killed(serving: Serving) -> None:
    ids = submit_all(serving)
    serving.kill()
    serving.start()
    check_second_attempts(serving, ids, "lost")


def test_the_launcher_is_killed(serving: Serving) -> None:
    ids = submit_all(serving)
    (launcher,) = children_of(serving.process.pid)
    os.kill(launcher, signal.SIGKILL)
    check_second_attempts(serving, ids, "lost")


def test_the_daemon_stops(serving: Serving) -> None:
    """Skipping ahead, twice: what does not end by itself is killed, and nothing of it is left."""
    submit_all(serving)
    for asked in ("stage drain", "stage terminate"):
        serving.signal(signal.SIGTERM)
        serving.until_logged(asked)
    serving.signal(signal.SIGTERM)
    assert serving.process.wait(PATIENCE) == 0
    check_nothing_left(serving)
