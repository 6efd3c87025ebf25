"""`jobqueued import`: what goes in, what is kept aside, and running it again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.support import process_status
from tests.cli.bulk_support import PARKED, exported, numbers, parked, started, write_lines
from tests.cli.support import PATIENCE, Done, Serving, run_command, until


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    running = Serving(tmp_path_factory.mktemp("import"), PARKED)
    yield running
    assert running.stop() == 0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Serving]:
    """A daemon for one test that restarts it or needs it empty."""
    running = Serving(tmp_path, PARKED)
    yield running
    if running.process.poll() is None:
        running.stop()


def told(done: Done) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def figures(done: Done) -> tuple[int, int, int, int]:
    """Lines, new ones, those already there, rejected ones."""
    document = told(done)
    names = ("lines", "new", "already_there", "rejected")
    lines, new, there, rejected = (document[name] for name in names)
    return lines, new, there, rejected


def kept_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_every_line_becomes_a_job_once_however_often_it_is_imported(own: Serving) -> None:
    file = write_lines(own.place / "jobs.ndjson", [parked(n) for n in range(250)])
    done = own.run("import", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "250 lines: 250 new\n", "")
    again = own.run("import", "jobs.ndjson")
    assert (again.returncode, again.stdout) == (0, "250 lines: 0 new, 250 already there\n")
    assert "--name" in again.stderr
    assert sorted(numbers(own)) == list(range(250))
    assert own.run("import", "jobs.ndjson", "--name", "tomorrow").stdout == "250 lines: 250 new\n"


def test_the_same_line_twice_is_two_jobs_and_edits_submit_only_what_is_new(own: Serving) -> None:
    path = own.place / "jobs.ndjson"
    write_lines(path, [parked(1), parked(1), parked(2)])
    assert figures(own.run("import", str(path), "--json")) == (3, 3, 0, 0)
    edits: list[tuple[list[object], int]] = [
        ([parked(0), parked(1), parked(1), parked(2)], 1),
        ([parked(2), parked(1), parked(0)], 0),
        ([parked(1), parked(1), parked(1), parked(3)], 2),
        ([b'  {"type":"parked","payload":{"n": 1}}  ', b"", b"\r"], 0),
        ([parked(2, priority=9)], 1),
    ]
    for lines, new in edits:
        write_lines(path, lines)
        assert told(own.run("import", str(path), "--json"))["new"] == new
    assert Counter(numbers(own)) == {0: 1, 1: 3, 2: 2, 3: 1}


def test_a_type_for_lines_that_have_none(serving: Serving) -> None:
    lines = [{"correlation_id": "typed"}, {"type": "other", "correlation_id": "typed"}]
    file = write_lines(serving.place / "typed.ndjson", lines)
    assert serving.run("import", str(file), "--type", "parked").returncode == 0
    found = exported(serving, "--correlation-id", "typed")
    assert sorted(bytes(job["type"]) for job in found) == [b'"other"', b'"parked"']


BAD: list[tuple[object, str]] = [
    (b"not JSON", "the line is not JSON"),
    (b'{"type":"parked"', "the line is not JSON"),
    (b"[1]", "the line must be a JSON object"),
    (b'{"type":"parked","payload":"\xff"}', "the line is not UTF-8 (byte 28"),
    (b'{"type":"parked","payload":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
    (b'{"type":"parked","payload":' + b"[" * 200 + b"]" * 200 + b"}", "payload: is nested more"),
    ({"type": "prked"}, '(did you mean "parked"?)'),
    ({"payload": 1}, "type: is required"),
    (parked(1, priority=10), "priority: must be a whole number"),
    (parked(1, max_retires=3), "max_retires: is not known here"),
    (parked(1, run_at="soon"), "run_at: must be a time"),
    (parked(1, payload="x" * 2000), "payload: is 2002 bytes, more than 1024"),
    (parked(2, idempotency_key="taken"), "idempotency_key: 'taken' belongs to a job of another"),
    (parked(3, idempotency_key="taken"), "idempotency_key: 'taken' belongs to a job of another"),
]


def test_bad_lines_are_kept_with_their_reasons_and_the_others_go_in(own: Serving) -> None:
    own.submit("other", "--idempotency-key", "taken")
    lines = [line for n, (bad, _) in enumerate(BAD) for line in (bad, parked(100 + n))]
    file = write_lines(own.place / "jobs.ndjson", lines)
    done = own.run("import", str(file))
    kept = own.place / "jobs.ndjson.rejected.ndjson"
    assert done.returncode == 1
    assert done.stdout == f"28 lines: 14 new, 14 rejected (see {kept})\n"
    assert sorted(numbers(own, "--type", "parked")) == [100 + n for n in range(14)]
    originals = file.read_bytes().split(b"\n")
    found = {entry["line"]: entry for entry in kept_lines(kept)}
    assert sorted(found) == [2 * n + 1 for n in range(len(BAD))]
    for n, (_, reason) in enumerate(BAD):
        assert reason in " ".join(found[2 * n + 1]["reasons"])
    for raw in kept.read_bytes().splitlines():
        entry = json.loads(raw)
        original = originals[entry["line"] - 1]
        text = entry.get("text")
        assert original == text.encode(errors="surrogateescape") if text else original in raw


def test_what_was_kept_can_be_corrected_there_and_imported(own: Serving) -> None:
    file = write_lines(own.place / "jobs.ndjson", [b'{"type":"parked",}', parked(1, priority=10)])
    assert own.run("import", str(file)).returncode == 1
    kept = own.place / "jobs.ndjson.rejected.ndjson"
    assert own.run("import", str(kept)).returncode == 1
    assert sorted(entry["line"] for entry in kept_lines(Path(f"{kept}.rejected.ndjson"))) == [1, 2]
    corrected = (
        kept.read_bytes().replace(b",}", b',\\"payload\\":{\\"n\\":0}}').replace(b"10", b"9")
    )
    kept.write_bytes(corrected)
    assert own.run("import", str(kept)).stdout == "2 lines: 2 new\n"
    assert sorted(numbers(own)) == [0, 1]


def test_a_file_of_rejected_lines_is_never_overwritten(serving: Serving) -> None:
    file = write_lines(serving.place / "bad.ndjson", [b"x"])
    for name in ("bad.ndjson.rejected.ndjson", "bad.ndjson.rejected-2.ndjson"):
        document = told(serving.run("import", str(file), "--json"))
        assert document["rejected_file"] == str(serving.place / name)
    here = serving.run("import", str(file), "--rejected", "here")
    assert here.stdout == "1 line: 0 new, 1 rejected (see here)\n"
    again = serving.run("import", str(file), "--rejected", "here")
    assert again.returncode == 2
    assert "here is there already" in again.stderr
    assert len(kept_lines(serving.place / "here")) == 1


def test_a_line_too_long_for_any_memory_is_told_by_its_place(serving: Serving) -> None:
    path = serving.place / "long.ndjson"
    write_lines(path, [parked(1, correlation_id="long"), b"x" * (17 * 1024 * 1024), parked(2)])
    done = serving.run("import", str(path), "--json")
    assert figures(done) == (3, 2, 0, 1)
    [kept] = kept_lines(Path(told(done)["rejected_file"]))
    assert "longer than" in kept["reasons"][0]
    with path.open("rb") as file:
        file.seek(kept["start"])
        assert file.read(kept["bytes"]) == b"x" * (17 * 1024 * 1024) + b"\n"


def test_a_dry_run_says_what_would_be_rejected_and_submits_nothing(serving: Serving) -> None:
    lines = [parked(1, correlation_id="dry"), parked(2, priority=11), b"x"]
    file = write_lines(serving.place / "dry.ndjson", lines)
    done = serving.run("import", str(file), "--dry-run")
    assert done.returncode == 1
    summary, unchecked = done.stdout.splitlines()
    assert summary.startswith("3 lines: 1 without fault, 2 rejected (see ")
    assert unchecked.startswith("not checked: idempotency keys")
    assert exported(serving, "--correlation-id", "dry") == []


def test_standard_input(serving: Serving) -> None:
    lines = "".join(json.dumps(parked(n, correlation_id="piped")) + "\n" for n in range(3))
    for new in (3, 0):
        done = serving.run("import", "-", "--json", stdin="\ufeff" + lines.rstrip("\n"))
        assert told(done)["new"] == new
    assert sorted(numbers(serving, "--correlation-id", "piped")) == [0, 1, 2]
    assert serving.run("import", "-").stdout == "0 lines: 0 new\n"


def test_lines_of_a_slow_pipe_go_in_as_they_come(serving: Serving) -> None:
    process = started(serving, "import", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    try:
        for n in range(2):
            process.stdin.write(json.dumps(parked(n, correlation_id="slow")).encode() + b"\n")
            process.stdin.flush()
            until(lambda: numbers(serving, "--correlation-id", "slow") == [*range(n + 1)])  # noqa: B023
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert b"stopped after 2 lines: 2 new\n  run it again to go on" in errors
    finally:
        process.kill()
        process.communicate()


def test_a_file_that_cannot_be_read_and_a_daemon_that_is_not_there(
    serving: Serving, tmp_path: Path
) -> None:
    missing = serving.run("import", "none.ndjson")
    assert (missing.returncode, missing.stderr) == (
        74,
        "error: none.ndjson: No such file or directory\n",
    )
    file = write_lines(tmp_path / "jobs.ndjson", [parked(1)])
    alone = run_command(tmp_path, "import", str(file), "--url", "unix:/nowhere/x.sock")
    assert alone.returncode == 69
    assert "start one with `jobqueued serve`" in alone.stderr


def feed(process: subprocess.Popen[bytes], path: Path, *, first: int) -> list[bytes]:
    """Write the first lines of a file to the process; the others. Some are under way by then."""
    assert process.stdin is not None
    lines = path.read_bytes().splitlines(keepends=True)
    process.stdin.write(b"".join(lines[:first]))
    process.stdin.flush()
    return lines[first:]


def test_killed_in_the_middle_and_run_again_every_line_is_one_job(own: Serving) -> None:
    amount = 20_000
    path = write_lines(own.place / "jobs.ndjson", [parked(n // 2) for n in range(amount)])
    process = started(own, "import", "-", "--name", "jobs.ndjson", stdin=subprocess.PIPE)
    feed(process, path, first=amount // 2)
    process.kill()
    process.communicate()
    assert 0 < waiting(own) <= amount // 2
    assert figures(own.run("import", str(path), "--json"))[0] == amount
    assert Counter(numbers(own)) == Counter(n // 2 for n in range(amount))


def waiting(serving: Serving) -> int:
    """How many jobs wait."""
    counts = json.loads(serving.run("status", "--json").stdout)["counts"]
    return int(counts["pending"])


def test_a_daemon_killed_in_the_middle_is_waited_for(own: Serving) -> None:
    amount = 20_000
    path = write_lines(own.place / "jobs.ndjson", [parked(n) for n in range(amount)])
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = started(own, "import", "-", **pipes)
    rest = feed(process, path, first=amount // 2)
    own.process.kill()
    own.process.wait(PATIENCE)
    own.start()
    output, errors = process.communicate(b"".join(rest), timeout=PATIENCE)
    assert (process.returncode, output.split(b":")[0]) == (0, b"20,000 lines"), errors
    assert b"note: waiting: " in errors
    assert sorted(numbers(own)) == list(range(amount))


def test_a_full_queue_is_waited_for(own: Serving) -> None:
    own.stop()
    config = own.place / "jobqueued.toml"
    config.write_text(config.read_text().replace("max_depth = 1000000", "max_depth = 30"))
    own.start()
    path = write_lines(own.place / "jobs.ndjson", [parked(n) for n in range(45)])
    process = started(own, "import", str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: waiting(own) == 30)
    assert process.poll() is None
    assert own.run("cancel", "--type", "parked", "--yes").stdout == "cancelled 30 jobs\n"
    output, errors = process.communicate(timeout=50)
    assert (process.returncode, output) == (0, b"45 lines: 45 new\n")
    assert b"jobs are waiting, the limit is 30" in errors
    assert sorted(numbers(own)) == list(range(45))


def test_memory_does_not_grow_with_the_file(own: Serving) -> None:
    peaks = []
    for amount in (2_000, 200_000):
        script = f'for n in range({amount}): print(\'{{"payload":{{"n":%d}}}}\' % n)'
        source = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert source.stdout is not None
        command = ("import", "-", "--dry-run", "--type", "parked")
        process = started(own, *command, stdin=source.stdout, stdout=subprocess.PIPE)
        source.stdout.close()
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_kilobytes(process.pid))
        assert process.communicate()[0].startswith(f"{amount:,} lines: {amount:,}".encode())
        assert source.wait(PATIENCE) == 0
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 40_000
    assert peaks[1] < 150_000


def peak_kilobytes(pid: int) -> int:
    """The most memory the process has had; nothing once it is over."""
    try:
        return int(process_status(f"/proc/{pid}", "VmHWM").split()[0])
    except (OSError, KeyError):
        return 0
