"""`jobqueued cancel` by filter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.bulk_support import PARKED, numbers, parked, write_lines
from tests.cli.support import Serving, until


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    running = Serving(tmp_path_factory.mktemp("cancel"), PARKED)
    yield running
    assert running.stop() == 0


def waiting(serving: Serving, label: str, number: int) -> list[str]:
    """So many jobs of that correlation id; the filter for them."""
    lines = (parked(n, correlation_id=label, key=label) for n in range(number))
    file: Path = write_lines(serving.place / f"{label}.ndjson", lines)
    assert serving.run("import", str(file)).returncode == 0
    return ["--correlation-id", label]


def test_all_that_fit_in_bounded_steps(serving: Serving) -> None:
    own, others = waiting(serving, "steps", 1_300), waiting(serving, "others", 2)
    counted = serving.run("cancel", *own, "--dry-run")
    assert (counted.returncode, counted.stdout) == (0, "1,300 jobs would be cancelled\n")
    assert len(numbers(serving, *own, "--status", "pending")) == 1_300
    done = serving.run("cancel", *own, "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled 1,300 jobs\n", "")
    assert numbers(serving, *own, "--status", "pending") == []
    assert numbers(serving, *others, "--status", "pending") == [0, 1]
    assert serving.run("cancel", *own, "--yes").stdout == "cancelled 0 jobs\n"
    log = (serving.place / "serve.log").read_text()
    assert log.count("cancelled 500 jobs: 'correlation_id=steps'") == 2
    assert log.count("cancelled 300 jobs: 'correlation_id=steps'") == 1


def test_without_a_label_it_goes_by_status(serving: Serving) -> None:
    waiting(serving, "typed", 1_200)
    serving.submit("parked", "--delay", "1h", "--correlation-id", "typed")
    scheduled = serving.run("cancel", "--type", "parked", "--status", "scheduled", "--yes")
    assert scheduled.stdout == "cancelled 1 job\n"
    done = serving.run("cancel", "--type", "parked", "--yes", "--json")
    document = json.loads(done.stdout)
    assert document["count"] >= 1_200
    assert document["stopping"] == 0
    assert numbers(serving, "--type", "parked", "--status", "pending") == []


def test_without_a_terminal_it_needs_a_yes(serving: Serving) -> None:
    own = waiting(serving, "careful", 1)
    done = serving.run("cancel", *own)
    assert done.returncode == 2
    assert "1 job would be cancelled: say --yes to do it" in done.stderr
    assert numbers(serving, *own, "--status", "pending") == [0]


def test_running_jobs_are_left_alone_unless_they_are_meant(serving: Serving) -> None:
    job_id = serving.at_the_gate()
    assert serving.run("cancel", "--type", "gate", "--yes").stdout == "cancelled 0 jobs\n"
    done = serving.run("cancel", "--type", "gate", "--running", "--yes")
    assert done.stdout == "cancelled 0 jobs, stopping 1 that run\n"
    until(lambda: serving.job(job_id)["status"] == "cancelled")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "which jobs? Name their ids, or filters"),
        (["--yes"], "which jobs? Name their ids, or filters"),
        (["x", "--type", "parked"], "by their ids or by filters, not both"),
        (["--status", "completed"], "'completed' is not one of"),
    ],
)
def test_what_is_not_clear_is_not_done(serving: Serving, arguments: list[str], told: str) -> None:
    done = serving.run("cancel", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
