"""The wall clock is set, by an hour and by a day, forward and back, while the daemon runs."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Serve
from tests.acceptance.support import GATED, Serving
from tests.api.support import until
from tests.fault import clocks  # noqa: F401
from tests.fault.clocks import DAY, HOUR
from tests.fault.preload import JumpingClock
from tests.fault.short import suffer

LEASE = 5.0
CONFIG = (
    """
[types.echo]
command = ["cat"]
[types.away]
remote = true
lease = "5s"
timeout = "1m"
"""
    + GATED
    + """
lease = "5s"
timeout = "1m"
"""
)


@pytest.fixture
def serving(prepare: Serve, compiler: None) -> Serving:
    return prepare(CONFIG)


@pytest.fixture
def clock(serving: Serving) -> JumpingClock:
    made = JumpingClock(serving.place)
    serving.start(**made.under_control({}))
    return made


def lease(serving: Serving) -> Any:
    """The next job, for a worker elsewhere."""
    wish = {"types": ["away"], "max": 1, "wait_seconds": 10, "worker": "elsewhere"}
    (job,) = serving.post("/leases", wish).document["jobs"]
    return job


def beat(serving: Serving, job: Any) -> Any:
    document = {"leases": [{"token": job["lease"]["token"]}]}
    (state,) = serving.post("/leases/heartbeat", document).document["leases"]
    return state


def settle(serving: Serving, job: Any) -> str:
    document = {"leases": [{"token": job["lease"]["token"], "outcome": "completed"}]}
    (state,) = serving.post("/leases/settle", document).document["leases"]
    status: str = state["status"]
    return status


async def test_under_load_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    name = "the clock is set by an hour or a day, both ways"
    await suffer(tmp_path, name, name)


def test_what_runs_goes_on(serving: Serving, clock: JumpingClock) -> None:
    """Here and elsewhere: leases and timeouts are lengths of time, not dates."""
    here = serving.at_gate()
    there = serving.submit("away")["id"]
    leased = lease(serving)
    ids = [here, there]
    for jump in (HOUR, DAY, -2 * DAY, -HOUR, DAY):
        clock.jump(jump)
        wake_all(serving)
        ids.append(serving.finish("echo")["id"])
        state = beat(serving, leased)
        assert state["status"] == "ok"
        assert LEASE - 1 < state["expires_in_seconds"] <= LEASE
    assert settle(serving, leased) == "ok"
    serving.let_through(here)
    for job_id in ids:
        job = serving.wait(job_id)
        assert (job["status"], job["attempt"], job["failures"]) == ("completed", 1, 0)
    assert ids == sorted(ids)
    assert serving.get("/stats")["uptime_seconds"] < 60


def wake_all(serving: Serving) -> None:
    """Have every part of the daemon look at the clock now instead of in a few seconds."""
    times = serving.log().count("configuration reloaded")
    serving.signal(signal.SIGHUP)
    serving.until_logged("configuration reloaded", times + 1)


def test_a_dead_worker_is_noticed_in_time_though_the_clock_was_set_back(
    serving: Serving, clock: JumpingClock
) -> None:
    job_id = serving.submit("away")["id"]
    lease(serving)
    clock.jump(-DAY)
    serving.until_status(job_id, "pending")
    assert serving.attempts(job_id)[0]["outcome"] == "lost"


def test_a_date_is_a_date(serving: Serving, clock: JumpingClock) -> None:
    """Scheduled jobs run when the clock says so, however it came to say so."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    dated = serving.submit("echo", run_at=tomorrow)["id"]
    later = serving.submit("echo", delay_seconds=1.5 * DAY)["id"]
    clock.jump(DAY + 1)
    wake_all(serving)
    assert serving.wait(dated)["status"] == "completed"
    clock.jump(-DAY)
    assert serving.finish("echo")["status"] == "completed"
    assert serving.job(later)["status"] == "scheduled"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "XXX-14YYY,M3.5.0,M10.5.0"])
def test_all_is_utc(prepare: Serve, zone: str) -> None:
    """Neither the zone nor daylight saving moves a date."""
    serving = prepare(CONFIG).start(TZ=zone)
    before = datetime.now(UTC)
    job = serving.submit("echo", run_at="2027-03-28T02:30:00+01:00")
    assert job["run_at"] == "2027-03-28T01:30:00.000Z"
    assert abs(datetime.fromisoformat(job["created_at"]) - before) < timedelta(minutes=1)
    assert serving.submit("echo", delay_seconds=DAY)["status"] == "scheduled"
    assert serving.finish("echo")["status"] == "completed"


def test_a_clock_set_back_while_no_daemon_ran(prepare: Serve, compiler: None) -> None:
    """Ids go on growing, and what ran is taken up."""
    serving = prepare(CONFIG)
    clock = JumpingClock(serving.place)
    variables = clock.under_control({})
    clock.jump(DAY)
    serving.start(**variables)
    first = serving.at_gate()
    serving.kill()
    clock.jump(-DAY)
    (serving.place / f"gate-{first}").unlink()
    serving.start(**variables)
    serving.until_at_gate(first)
    second = serving.finish("echo")["id"]
    assert second > first
    serving.let_through(first)
    assert serving.wait(first)["status"] == "completed"
    until(lambda: serving.job(second)["status"] == "completed")
