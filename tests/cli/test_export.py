"""`jobqueued export`, and the way back in through `import`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueued.api.submissions import SUBMISSION
from jobqueued.api.wire import WireJob
from jobqueued.cli.import_lines import DROPPED, SUBMITTED
from tests.cli.bulk_support import PARKED, exported, parked, started, write_lines
from tests.cli.support import PATIENCE, Serving, until

Parts = dict[str, msgspec.Raw]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Has 1,200 jobs of the correlation id `many`, numbered in their order."""
    running = Serving(tmp_path_factory.mktemp("export"), PARKED)
    lines = (parked(n, correlation_id="many") for n in range(1200))
    file = write_lines(running.place / "many.ndjson", lines)
    assert running.run("import", str(file)).returncode == 0
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Another daemon."""
    running = Serving(tmp_path_factory.mktemp("other"), PARKED)
    yield running
    assert running.stop() == 0


def test_every_job_is_on_a_line_newest_first(serving: Serving) -> None:
    jobs = exported(serving, "--correlation-id", "many")
    ids = [str(msgspec.json.decode(job["id"])) for job in jobs]
    assert len(set(ids)) == 1200
    assert ids == sorted(ids, reverse=True)
    shown = json.loads(serving.run("show", ids[0], "--json").stdout)
    known = {name: msgspec.json.decode(raw) for name, raw in jobs[0].items()}
    assert known.items() <= (shown.get("job") or shown).items()


def test_filters_and_a_limit(serving: Serving) -> None:
    own = ["--correlation-id", "many"]
    assert len(exported(serving, *own, "--limit", "7")) == 7
    assert len(exported(serving, *own, "--status", "pending", "--status", "dead")) == 1200
    for arguments in (["--status", "dead"], ["--type", "other"], ["--key", "none"]):
        assert exported(serving, *own, *arguments) == []
    early = "2020-01-01T00:00:00Z"
    assert exported(serving, *own, "--created-before", early) == []
    assert len(exported(serving, *own, "--created-after", early)) == 1200
    batch = str(msgspec.json.decode(exported(serving, *own, "--limit", "1")[0]["batch_id"]))
    assert 0 < len(exported(serving, "--batch-id", batch)) <= 100


def test_a_file_takes_its_name_when_it_is_complete(serving: Serving) -> None:
    path = serving.place / "out.ndjson"
    path.write_text("what was there before")
    path.chmod(0o640)
    done = serving.run("export", "--correlation-id", "many", "-o", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "exported 1,200 jobs\n")
    assert len(path.read_bytes().splitlines()) == 1200
    assert path.stat().st_mode & 0o777 == 0o640
    refused = serving.run("export", "--created-after", "soon", "-o", str(path))
    assert refused.returncode == 1
    assert "--created-after: " in refused.stderr
    assert len(path.read_bytes().splitlines()) == 1200
    assert [name for name in os.listdir(serving.place) if "out.ndjson" in name] == ["out.ndjson"]


def test_where_nothing_can_be_written_the_exit_is_74(serving: Serving) -> None:
    done = serving.run("export", "-o", "none/out.ndjson")
    assert done.returncode == 74
    assert f"{serving.place}/none/out.ndjson: No such file or directory" in done.stderr
    assert serving.run("export", "--limit", "1", "-o", "/dev/null").returncode == 0
    assert Path("/dev/null").is_char_device()


def test_a_reader_that_goes_away_ends_it_without_a_word(serving: Serving) -> None:
    with started(serving, "export", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


def test_interrupted_it_leaves_no_file(serving: Serving) -> None:
    """The daemon stands still, so that the export is in the middle of it."""
    serving.process.send_signal(signal.SIGSTOP)
    try:
        with started(serving, "export", "-o", "half.ndjson", stderr=subprocess.PIPE) as process:
            until(lambda: any("half.ndjson" in name for name in os.listdir(serving.place)))
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
    finally:
        serving.process.send_signal(signal.SIGCONT)
    assert [name for name in os.listdir(serving.place) if "half.ndjson" in name] == []


def test_import_knows_every_field_of_a_job() -> None:
    assert set(SUBMISSION) == SUBMITTED
    assert set(WireJob.__struct_encode_fields__) <= SUBMITTED | DROPPED
    assert set() == SUBMITTED & DROPPED


ODD = '{"type":"parked","payload":%s,"correlation_id":"odd"}'
PAYLOADS = [
    '{"n":123456789012345678901234567890}',
    '{"b":1,"a":1.10,"A":1e2,"z":-0.0}',
    '"\\u00e4\\ud83d\\ude00 ä😀\\/"',
    "null",
    "[ 1,\t2 ]",
]


def test_payloads_come_through_with_every_digit(serving: Serving, other: Serving) -> None:
    lines = [(ODD % payload).encode() for payload in PAYLOADS]
    file = write_lines(serving.place / "odd.ndjson", lines)
    assert serving.run("import", str(file)).stdout == "5 lines: 5 new\n"
    assert serving.run("export", "--correlation-id", "odd", "-o", "moved.ndjson").returncode == 0
    moved = serving.place / "moved.ndjson"
    for new in ("5 new", "0 new, 5 already there"):
        assert other.run("import", str(moved)).stdout == f"5 lines: {new}\n"
    found = {bytes(job["payload"]).decode() for job in exported(other, "--correlation-id", "odd")}
    assert found == {payload if payload != "null" else "{}" for payload in PAYLOADS}


def test_a_job_is_submitted_again_without_the_key_it_was_imported_with(serving: Serving) -> None:
    own = ("--correlation-id", "again")
    file = write_lines(
        serving.place / "first.ndjson", [parked(n, correlation_id="again") for n in (1, 2)]
    )
    assert serving.run("import", str(file)).returncode == 0
    assert serving.run("cancel", *own, "--yes").returncode == 0
    assert serving.run("export", *own, "-o", "again.ndjson").returncode == 0
    done = serving.run("import", "again.ndjson")
    assert done.stdout == "2 lines: 0 new, 2 already there\n"
    assert "take their idempotency_key out" in done.stderr
    lines = (serving.place / "again.ndjson").read_bytes().splitlines()
    jobs = [json.loads(line) for line in lines]
    for job in jobs:
        del job["idempotency_key"]
    write_lines(serving.place / "again.ndjson", jobs)
    assert serving.run("import", "again.ndjson").stdout == "2 lines: 2 new\n"
    assert len(exported(serving, *own, "--status", "pending")) == 2


def test_a_payload_over_several_lines_stays_on_one(serving: Serving) -> None:
    serving.submit("parked", '{\r\n"a": [1,\n2]}', "--correlation-id", "broken up")
    [job] = exported(serving, "--correlation-id", "broken up")
    assert bytes(job["payload"]) == b'{  "a": [1, 2]}'


YEAR = datetime.now(UTC).year
labels = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=9) | labels,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
jobs = st.fixed_dictionaries(
    {"type": st.sampled_from(["parked", "other"]), "correlation_id": st.just("any")},
    optional={
        "payload": values.filter(lambda value: len(json.dumps(value)) < 1000),
        "priority": st.integers(0, 9),
        "max_retries": st.integers(0, 20),
        "run_at": st.just(f"{YEAR + 1}-01-31T12:00:00.250Z"),
        "expires_at": st.just(f"{YEAR + 2}-01-31T12:00:00.000Z"),
        "key": labels,
    },
)
KEPT = ("type", "payload", "priority", "max_retries", "expires_at", "correlation_id", "key")


@given(some=st.lists(jobs, min_size=1, max_size=25))
@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_exported_can_be_imported_elsewhere(
    serving: Serving, other: Serving, tmp_path_factory: pytest.TempPathFactory, some: list[Any]
) -> None:
    place = tmp_path_factory.mktemp("lines")
    path, moved = write_lines(place / "jobs.ndjson", some), place / "moved.ndjson"
    for one in (serving, other):
        one.run("cancel", "--correlation-id", "any", "--yes")
    assert serving.run("import", str(path), "--name", str(place)).returncode == 0
    waiting = ("--correlation-id", "any", "--status", "pending", "--status", "scheduled")
    assert serving.run("export", *waiting, "-o", str(moved)).returncode == 0
    assert other.run("import", str(moved)).returncode == 0
    here, there = exported(serving, *waiting), exported(other, *waiting)
    assert len(here) == len(some)
    assert sorted(map(sent_parts, here)) == sorted(map(sent_parts, there))


def sent_parts(job: Parts) -> list[bytes]:
    """What somebody chose, byte by byte; the time only where it was chosen too."""
    scheduled = bytes(job["run_at"]) if bytes(job["status"]) == b'"scheduled"' else b""
    return [scheduled, *(bytes(job[name]) for name in (*KEPT, "idempotency_key"))]
