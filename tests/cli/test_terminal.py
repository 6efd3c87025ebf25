"""On a terminal: colour, width, friendly lines."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.console import Console

from jobqueued.cli.screen import table_of_names
from jobqueued.cli.status import draw
from jobqueued.model.job import Status
from tests.cli.bulk_support import write_lines
from tests.cli.support import PATIENCE, Serving, environment


def on_terminal(
    daemon: Serving, columns: int, *arguments: str, typed: str = "", **variables: str
) -> str:
    """What the command shows on a terminal of that width, where somebody has typed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "jobqueued", *arguments],
        cwd=daemon.place,
        env=environment(daemon.place) | {"TERM": "xterm"} | variables,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    process.wait(PATIENCE)
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def test_colour_on_a_terminal_only_where_it_is_wanted(daemon: Serving) -> None:
    assert "\x1b[" in on_terminal(daemon, 100, "status")
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for arguments in (["status"], ["show", "none"]):
            assert "\x1b" not in on_terminal(daemon, 100, *arguments, **variables), variables
    assert "\x1b[31merror:" in on_terminal(daemon, 100, "show", "none")


def test_tables_are_never_wider_than_the_terminal(daemon: Serving) -> None:
    daemon.run("submit", "--wait", "fail")
    for command in ("status", "list"):
        shown = on_terminal(daemon, 60, command, NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= 60


def test_reasons_are_wrapped_and_never_cut(daemon: Serving) -> None:
    daemon.run("pause", "gate", "--note", "the printer " + "burns and " * 10 + "burns")
    job_id = daemon.submit("gate")
    for arguments in (["why", job_id], ["why", "--type", "gate"]):
        shown = on_terminal(daemon, 80, *arguments, NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= 80
        assert shown.count("burns") % 11 == 0 < shown.count("burns")
    daemon.run("cancel", job_id)
    daemon.run("resume", "gate")


def test_a_list_has_a_note_where_there_is_room_for_it(daemon: Serving) -> None:
    daemon.run("submit", "greet", "--delay", "1h", "--correlation-id", "noted")
    arguments = ["list", "--correlation-id", "noted"]
    heading, job = on_terminal(daemon, 80, *arguments, NO_COLOR="1").splitlines()
    assert heading.split() == ["ID", "STATUS", "TRIES", "AGE", "TYPE", "NOTE"]
    assert " greet in 59m " in job
    heading, job = on_terminal(daemon, 70, *arguments, NO_COLOR="1").splitlines()
    assert heading.split() == ["ID", "STATUS", "TRIES", "AGE", "TYPE"]
    assert job.split()[-1] == "greet"


def test_submit_says_more_to_people(daemon: Serving) -> None:
    shown = on_terminal(daemon, 80, "submit", "greet", '"hi"', "--wait")
    assert shown.splitlines()[1] == 'completed: "hi"'
    assert "submitted, scheduled" in on_terminal(daemon, 80, "submit", "greet", "--delay", "1h")


def test_a_type_without_a_result_says_only_that_it_completed(daemon: Serving) -> None:
    shown = on_terminal(daemon, 80, "submit", "quiet", "--wait")
    assert shown.splitlines()[1:] == ["completed"]


def test_following_ends_with_the_job(daemon: Serving) -> None:
    job_id = daemon.submit("fail")
    shown = on_terminal(daemon, 80, "logs", "-f", job_id, NO_COLOR="1")
    assert shown.splitlines() == ["it went wrong"]


def test_a_bar_shows_how_far_an_import_is_and_leaves_the_summary(daemon: Serving) -> None:
    lines = [{"type": "greet", "delay_seconds": 3600, "correlation_id": "bar"}] * 3_000
    write_lines(daemon.place / "bar.ndjson", lines)
    shown = on_terminal(daemon, 80, "import", "bar.ndjson")
    assert re.search(r"import .*\d+%.*\d+:\d\d:\d\d.*[\d,]+ lines [\d,]+/s", plain_text(shown))
    assert plain_text(shown).splitlines()[-1].endswith("3,000 lines: 3,000 new")
    dumb = on_terminal(daemon, 80, "import", "bar.ndjson", TERM="dumb")
    assert "\x1b" not in dumb
    assert "3,000 lines: 0 new, 3,000 already there" in dumb
    exported = on_terminal(daemon, 80, "export", "--correlation-id", "bar", "-o", "bar.out")
    assert re.search(r"export .*[\d,]+ jobs", plain_text(exported))


def test_cancelling_by_filter_asks_first(daemon: Serving) -> None:
    own = ["--correlation-id", "asked"]
    job_id = daemon.submit("greet", "--delay", "1h", *own)
    shown = on_terminal(daemon, 80, "cancel", *own, typed="n\n")
    assert "Cancel 1 job? [y/N]: " in shown
    assert "nothing was cancelled" in shown
    assert daemon.job(job_id)["status"] == "scheduled"
    assert "cancelled 1 job" in on_terminal(daemon, 80, "cancel", *own, typed="y\n")
    assert daemon.job(job_id)["status"] == "cancelled"


def plain_text(shown: str) -> str:
    """What was shown, without the sequences that move and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def test_all_statuses_fit_beside_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("jobqueued.cli.screen.UNLIMITED", 80)
    counts = dict.fromkeys(Status, 99_999)
    types = {"send.invoices.daily": {"counts": counts}, "b": {"counts": {"pending": 1}}}
    store = {"bytes": 1, "wal_bytes": 1}
    draw(
        {
            "version": "1", "uptime_seconds": 1, "ready": True, "draining": False, "reasons": [],
            "counts": counts, "dlq_depth": 1, "store": store, "types": types,
        },
        None,
    )  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    [head] = [line for line in lines if line.startswith("TYPE")]
    assert head.split() == [
        *("TYPE", "SCHED", "PENDING", "RUNNING", "RETRY", "COMPLETED", "DEAD"),
        *("DISCARD", "CANCEL", "EXPIRED"),
    ]
    [row] = [line for line in lines if line.startswith("send.")]
    assert row.split()[1:] == ["99999"] * len(Status)


def test_a_long_name_leaves_room_for_the_other_columns() -> None:
    name = "a.very.long.name-of-a.type" * 4
    drawn = table_of_names("TYPE", "WAITING", "STATE")
    drawn.add_row(name, "12", "paused")
    screen = Console(width=80, file=io.StringIO())
    screen.print(drawn)
    assert isinstance(screen.file, io.StringIO)
    head, first, *others = screen.file.getvalue().splitlines()
    assert head.split() == ["TYPE", "WAITING", "STATE"]
    assert first.split()[1:] == ["12", "paused"]
    assert "".join(line.split()[0] for line in (first, *others)) == name
