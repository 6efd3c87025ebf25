"""The long runs themselves: the table they end in, and what counts as growth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.support import environment
from tests.api.support import PATIENCE, ROOT
from tests.fault.table import Row, render
from tests.fault.watching import Use, slopes

FLAT = Use(memory=50, descriptors=40, threads=6, tasks=20, log=4)
GROWN = {"memory": 60, "descriptors": 60, "threads": 9, "tasks": 40, "log": 24}


def test_a_fault_by_itself_ends_in_a_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fault.run",
            "fault",
            "--only",
            "of a handler",
            "--times",
            "1",
        ],
        cwd=ROOT,
        env=environment(tmp_path) | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| fault | times | lost | duplicated | violations |" in done.stdout
    assert "| kill -9 of a handler | 1 | 0 | 0 | 0 |" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_remarks_stand_below_the_table() -> None:
    rows = [Row("one", 3, remarks=["not done: no compiler"]), Row("two", 20, 1, 2, 3)]
    assert render(rows).splitlines()[2:] == [
        "| one | 3 | 0 | 0 | 0 |",
        "| two | 20 | 1 | 2 | 3 |",
        "",
        "one: not done: no compiler",
    ]


def test_what_stays_flat_is_no_growth() -> None:
    noisy = [replace(FLAT, memory=50 + number % 3, tasks=20 - number % 5) for number in range(60)]
    assert list(slopes(noisy)) == []


@pytest.mark.parametrize("name", GROWN)
def test_what_grows_is_seen(name: str) -> None:
    begin, end = getattr(FLAT, name), GROWN[name]
    samples = [replace(FLAT, **{name: begin + (end - begin) * part / 60}) for part in range(90)]
    (found,) = slopes(samples)
    assert found.startswith(f"{name} grew")


def test_a_log_that_was_ever_too_long_is_seen() -> None:
    samples = [FLAT] * 30 + [replace(FLAT, log=60)] + [FLAT] * 30
    assert list(slopes(samples)) == ["the log had 60.0 MB"]
