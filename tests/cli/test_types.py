"""`types`, `pause` and `resume`."""

from __future__ import annotations

import json

from tests.cli.support import Serving

TYPES = ["fail", "gate", "greet", "marked", "picky", "quiet", "report"]


def test_one_line_for_each_type(daemon: Serving) -> None:
    daemon.run("submit", "--wait", "greet")
    done = daemon.run("types")
    assert done.returncode == 0
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["TYPE", "KIND", "WAITING", "RUNNING", "MOST", "RATE", "P95", "STATE"]
    assert [row.split()[0] for row in rows] == TYPES
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_one_type_is_told_with_what_is_set_for_it(daemon: Serving) -> None:
    told = dict(line.split(None, 1) for line in daemon.run("types", "marked").stdout.splitlines())
    assert (told["type"], told["confirm_replay"], told["breaker"]) == ("marked", "True", "off")
    plain = daemon.run("types", "greet").stdout
    assert "confirm_replay" not in plain
    assert "payload_schema" not in plain
    assert "payload_schema  True" in daemon.run("types", "picky").stdout
    assert json.loads(daemon.run("types", "picky", "--json").stdout)["payload_schema"] is True


def test_a_pause_is_shown_wherever_it_matters(daemon: Serving) -> None:
    paused = daemon.run("pause", "quiet", "--note", "the printer burns")
    assert paused.returncode == 0
    assert paused.stdout.startswith("quiet: paused ")
    assert paused.stdout.rstrip().endswith(": the printer burns")
    job_id = daemon.submit("quiet")
    types = daemon.run("types").stdout
    assert "the printer burns" in types
    assert "quiet: paused" in daemon.run("status").stdout
    one = daemon.run("types", "quiet").stdout
    assert "1 pending" in one
    assert "the printer burns" in one
    assert max(len(line) for line in (types + one).splitlines()) <= 80
    assert json.loads(daemon.run("types", "quiet", "--json").stdout)["paused"]["by"]
    resumed = daemon.run("resume", "quiet")
    assert (resumed.returncode, resumed.stdout) == (0, "quiet: runs\n")
    assert daemon.run("wait", job_id).returncode == 0
    assert "paused" not in daemon.run("status").stdout


def test_json_is_the_answer_of_the_api(daemon: Serving) -> None:
    names = [each["name"] for each in json.loads(daemon.run("types", "--json").stdout)["types"]]
    assert names == TYPES
    assert json.loads(daemon.run("pause", "gate", "--json").stdout)["paused"]["note"] is None
    assert json.loads(daemon.run("resume", "gate", "--json").stdout)["paused"] is None


def test_an_unknown_type_is_told_and_the_others_are_done(daemon: Serving) -> None:
    done = daemon.run("pause", "gaet", "report")
    assert done.returncode == 1
    assert 'did you mean "gate"' in done.stderr
    assert done.stdout.startswith("report: paused")
    assert daemon.run("resume", "report").returncode == 0
    assert daemon.run("types", "gaet").returncode == 1
