"""Old jobs go while the queue is in use, and the file shrinks when they have gone."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from typing import Any

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import until

MEGABYTE = 1024 * 1024
OLD = 2_000
TYPES = "[queue]\nmax_depth = 100000\n[types.away]\nremote = true\n"
AT_ONCE = TYPES + '[retention]\ncancelled = "1s"\n'
KEPT_BYTES = 4 * MEGABYTE
"""Free space that stays in the file for the next jobs."""


def expired(serving: Serving, count: int, payload: str = "") -> None:
    """Have so many jobs that are over."""
    job = {"type": "away", "expires_in_seconds": 0.001, "payload": payload}
    for _ in range(count // 100):
        assert serving.post("/jobs/batch", {"jobs": [job] * 100}).status == 201
    until(lambda: old_jobs(serving) == count)


def old_jobs(serving: Serving) -> int:
    left: int = outcome(serving)["jobs"]
    return left


def outcome(serving: Serving) -> Any:
    return serving.get("/stats")["store"]["retention"]["outcomes"]["expired"]


def forget(serving: Serving) -> None:
    """Have the daemon delete what it kept so far."""
    serving.configure(AT_ONCE)
    serving.signal(signal.SIGHUP)


def test_jobs_are_taken_while_old_ones_go(serve: Serve) -> None:
    serving = serve(TYPES)
    expired(serving, OLD)
    forget(serving)
    seen: list[int] = []
    while not seen or seen[-1]:
        serving.submit("away")
        seen.append(old_jobs(serving))
    assert len({*seen} - {0, OLD}) >= 3
    assert seen == sorted(seen, reverse=True)
    assert serving.type_counts("away") == {"pending": len(seen)}


def test_deleting_goes_on_after_a_stop_in_the_middle(serve: Serve) -> None:
    serving = serve(TYPES)
    expired(serving, OLD)
    forget(serving)
    until(lambda: old_jobs(serving) < OLD)
    serving.kill()
    left = in_file(serving)
    assert 0 < left < OLD
    serving.start()
    until(lambda: old_jobs(serving) < left)
    assert serving.stop() == 0
    serving.start()
    until(lambda: old_jobs(serving) == 0)


def in_file(serving: Serving) -> int:
    """How many jobs there are, without a daemon."""
    with closing(sqlite3.connect(serving.place / "jobs.db")) as database:
        [(count,)] = database.execute("SELECT count(*) FROM jobs").fetchall()
    return int(count)


def test_the_file_shrinks_when_old_jobs_have_gone(serve: Serve) -> None:
    serving = serve(TYPES)
    expired(serving, 1_000, "x" * 30_000)
    full = serving.get("/stats")["store"]
    assert full["bytes"] + full["wal_bytes"] > 30 * MEGABYTE
    forget(serving)
    until(lambda: old_jobs(serving) == 0)
    until(lambda: serving.get("/stats")["store"]["free_bytes"] <= KEPT_BYTES)
    assert serving.get("/stats")["store"]["wal_bytes"] < 20 * MEGABYTE
    assert serving.stop() == 0
    assert (serving.place / "jobs.db").stat().st_size < KEPT_BYTES + MEGABYTE


def test_what_is_kept_is_told(serve: Serve) -> None:
    serving = serve(TYPES)
    expired(serving, 100)
    kept = serving.get("/stats")["store"]["retention"]
    oldest = outcome(serving)["oldest_finished_at"]
    assert outcome(serving) == {
        "keep_seconds": 7 * 86_400,
        "jobs": 100,
        "oldest_finished_at": oldest,
    }
    assert kept["next_deletion_at"] > oldest > serving.get("/stats")["started_at"]
    assert kept["outcomes"]["completed"]["oldest_finished_at"] is None
