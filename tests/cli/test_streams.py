"""Standard streams that are closed or cannot show every character."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobqueued.cli.streams import in_ascii
from tests.cli.support import CONFIG, PATIENCE, ROOT, Done, Serving, environment, until


def in_shell(place: Path, line: str) -> Done:
    """Run a line of shell in which `$PYTHON -m jobqueued` is the command."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=place,
        env=environment(place) | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_commands_work_with_closed_streams(daemon: Serving, closed: str) -> None:
    done = in_shell(daemon.place, f'"$PYTHON" -m jobqueued status {closed}')
    assert (done.returncode, done.stderr) == (0, "")
    assert ("ready" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_a_refusal_with_closed_streams_keeps_its_exit_code(daemon: Serving) -> None:
    done = in_shell(daemon.place, '"$PYTHON" -m jobqueued submit nothing <&- >&- 2>&-')
    assert done.returncode == 1


def test_a_daemon_with_closed_streams_serves_and_stops_in_order(tmp_path: Path) -> None:
    text = CONFIG.format(place=tmp_path, root=ROOT, python=sys.executable)
    (tmp_path / "jobqueued.toml").write_text(text)
    serving = subprocess.Popen(
        ["sh", "-c", 'exec "$PYTHON" -m jobqueued serve <&- >&- 2>&-'],
        cwd=tmp_path,
        env=environment(tmp_path) | {"PYTHON": sys.executable},
    )
    until(lambda: (tmp_path / "jobqueued.sock").exists())
    done = in_shell(tmp_path, '"$PYTHON" -m jobqueued submit greet "[1]" --wait')
    assert done.returncode == 0, done.stderr
    for stream in range(3):
        assert os.readlink(f"/proc/{serving.pid}/fd/{stream}") == os.devnull
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(PATIENCE) == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_tables_are_drawn_in_any_encoding(daemon: Serving, encoding: str) -> None:
    done = daemon.run("status", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "...................." in done.stdout
    job_id = daemon.submit("greet", '"é\u65e5"')
    daemon.run("wait", job_id)
    shown = daemon.run("show", job_id, PYTHONIOENCODING="ascii")
    assert shown.returncode == 0
    assert r'"\xe9\u65e5"' in shown.stdout


def test_what_an_encoding_lacks_is_shown_in_another_way() -> None:
    lacking = UnicodeEncodeError("ascii", "a█░…é", 1, 5, "not there")
    assert in_ascii(lacking) == ("#.~\\xe9", 5)
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")
    with pytest.raises(UnicodeDecodeError):
        in_ascii(broken)
