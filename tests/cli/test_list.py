"""Lists: filters, pages, tables."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from jobqueued.cli.list import note_on
from jobqueued.cli.text import milliseconds
from tests.cli.support import Serving


@pytest.fixture(scope="module")
def ids(daemon: Serving) -> list[str]:
    """Seven jobs of one correlation id, newest first."""
    own = ["--correlation-id", "listed", "--delay", "1h"]
    return [daemon.submit("greet", *own) for _ in range(7)][::-1]


def listed(daemon: Serving, *arguments: str) -> dict[str, Any]:
    done = daemon.run("list", "--json", "--correlation-id", "listed", *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_newest_first_with_a_cursor_to_go_on(daemon: Serving, ids: list[str]) -> None:
    first = listed(daemon, "--limit", "3")
    assert [job["id"] for job in first["jobs"]] == ids[:3]
    rest = listed(daemon, "--cursor", first["next_cursor"])
    assert [job["id"] for job in rest["jobs"]] == ids[3:]
    assert rest["next_cursor"] is None


def test_filters(daemon: Serving, ids: list[str]) -> None:
    assert len(listed(daemon, "--status", "scheduled", "--status", "dead")["jobs"]) == 7
    assert listed(daemon, "--status", "completed") == {"jobs": [], "next_cursor": None}
    assert listed(daemon, "--type", "fail")["jobs"] == []
    assert len(listed(daemon, "--created-after", "2020-01-01T00:00:00Z")["jobs"]) == 7
    assert listed(daemon, "--created-before", "2020-01-01T00:00:00Z")["jobs"] == []
    assert listed(daemon, "--key", "none")["jobs"] == []


def test_all_pages_make_one_document(
    daemon: Serving, ids: list[str], monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    from jobqueued.cli import list as subject
    from jobqueued.cli import pages

    monkeypatch.setattr(pages, "LARGEST_PAGE", 2)
    monkeypatch.chdir(daemon.place)
    arguments = ["--all", "--json", "--correlation-id", "listed"]
    subject.list_jobs.main(arguments, standalone_mode=False)
    document = json.loads(capfdbinary.readouterr().out)
    assert [job["id"] for job in document["jobs"]] == ids
    assert document["next_cursor"] is None


def test_a_table_fits_80_columns_and_keeps_ids_whole(daemon: Serving, ids: list[str]) -> None:
    done = daemon.run("list", "--correlation-id", "listed", "--limit", "5", COLUMNS="30")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "TRIES", "AGE", "TYPE", "NOTE"]
    assert [line.split()[0] for line in lines[1:]] == ids[:5]
    assert all(line.split()[1] == "scheduled" for line in lines[1:])
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout
    assert "there are more" in done.stderr


def test_the_note_says_when_a_job_runs_or_why_it_died(daemon: Serving, ids: list[str]) -> None:
    waiting = daemon.run("list", "--correlation-id", "listed", "--limit", "1").stdout
    assert re.search(r" greet +in 59m \d+s$", waiting, re.MULTILINE)
    daemon.run("submit", "fail", "--wait", "--correlation-id", "fallen")
    died = daemon.run("list", "--status", "dead", "--correlation-id", "fallen").stdout
    assert re.search(r" fail .*\S$", died, re.MULTILINE)
    assert [line for line in died.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"status": "retrying", "run_at": "2026-01-31T12:05:00.000Z"}, "in 5m"),
        ({"status": "processing", "progress": None}, ""),
        ({"status": "processing", "progress": {"percent": 40.0, "message": "on"}}, "40 % on"),
        ({"status": "processing", "progress": {"percent": 2.5, "message": None}}, "2.5 %"),
        ({"status": "dead", "last_error": "a\nexit 3\n"}, "exit 3"),
        ({"status": "dead", "last_error": None}, ""),
        ({"status": "completed", "last_error": "earlier"}, ""),
    ],
)
def test_notes(fields: dict[str, Any], note: str) -> None:
    assert note_on(fields, milliseconds("2026-01-31T12:00:00.000Z")) == note


def test_an_empty_list_says_so(daemon: Serving) -> None:
    done = daemon.run("list", "--correlation-id", "nobody")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no jobs\n")


@pytest.mark.parametrize(
    "arguments", [["list"], ["dlq", "list"], ["cancel", "--dry-run"], ["export"]]
)
def test_a_type_that_is_none_is_told(daemon: Serving, arguments: list[str]) -> None:
    done = daemon.run(*arguments, "--type", "gaet")
    assert done.returncode == 0
    told = 'note: there is no job type "gaet" (did you mean "gate"?)'
    assert done.stderr.splitlines()[-1] == told


def test_a_bad_filter_is_refused_by_name(daemon: Serving) -> None:
    done = daemon.run("list", "--created-after", "yesterday")
    assert done.returncode == 1
    assert "--created-after: " in done.stderr
