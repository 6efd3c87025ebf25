"""`jobqueued dlq`: dead jobs looked at, corrected, replayed and discarded from the command line."""

from __future__ import annotations

import getpass
import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobqueued.cli.replay import MARKED
from tests.cli.support import PATIENCE, Serving, environment
from tests.cli.test_terminal import on_terminal

WRONG, RIGHT = '{"to":"bad","n":1.10}', '{"to":"good","n":1.10}'


def dead(daemon: Serving, kind: str = "picky", payload: str = WRONG) -> str:
    """A job that died; its id."""
    job_id = daemon.submit(kind, payload)
    daemon.run("wait", job_id)
    assert daemon.job(job_id)["status"] == "dead"
    return job_id


def ended(daemon: Serving, job_id: str) -> dict[str, Any]:
    daemon.run("wait", job_id)
    return daemon.job(job_id)


def answering(daemon: Serving, words: str, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command on a terminal where somebody types; its exit code and what was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "jobqueued", *arguments],
        cwd=daemon.place,
        env=environment(daemon.place) | {"TERM": "dumb"} | variables,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    os.write(ours, words.encode())
    shown = b""
    while chunk := read(ours):
        shown += chunk
    code = process.wait(PATIENCE)
    os.close(ours)
    return code, shown.decode()


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def editor(place: Path, script: str) -> str:
    """A program that edits the file it is given."""
    path = place / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_payload_is_corrected_and_replayed_in_one_command(daemon: Serving) -> None:
    job_id = dead(daemon)
    done = daemon.run("dlq", "replay", job_id, "--payload", RIGHT, "--note", "a typo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == job_id
    job = ended(daemon, job_id)
    assert (job["status"], job["attempt"], job["payload"]) == ("completed", 2, json.loads(RIGHT))
    assert f'"payload_before":{WRONG}' in daemon.run("show", job_id, "--json").stdout


def test_show_tells_the_whole_history_in_order(daemon: Serving) -> None:
    job_id = dead(daemon)
    daemon.run("dlq", "replay", job_id, "--payload", "-", "--note", "a typo", stdin=RIGHT)
    ended(daemon, job_id)
    shown = daemon.run("show", job_id).stdout
    _, _, history = shown.rpartition("TRY ")
    heading, first, change, second = history.splitlines()
    assert heading.endswith("ERROR OR CHANGE")
    assert (first.split()[:2], second.split()[:2]) == (["1", "failed"], ["2", "completed"])
    assert change.split()[0] == "replay"
    told = f"by user {getpass.getuser()}: a typo; the payload was "
    assert change.endswith(told + '{"to": "bad", "n": 1.10}')


def test_the_history_is_there_without_a_daemon(own_daemon: Serving) -> None:
    job_id = dead(own_daemon)
    own_daemon.run("dlq", "discard", job_id, "--note", "never mind")
    beside = own_daemon.run("show", job_id).stdout
    own_daemon.stop()
    offline = own_daemon.run("show", job_id)
    assert offline.returncode == 0
    for shown in (beside, offline.stdout):
        assert f"by user {getpass.getuser()}: never mind" in shown


def test_a_payload_is_edited_and_replayed_in_one_command(daemon: Serving) -> None:
    job_id = dead(daemon)
    vi = editor(daemon.place, 'sed -i s/bad/good/ "$1"; touch -d "+1 minute" "$1"')
    code, _ = answering(daemon, "", "dlq", "replay", job_id, "--edit", EDITOR=vi, VISUAL=vi)
    assert code == 0
    assert ended(daemon, job_id)["status"] == "completed"
    # What nobody touched has every digit still.
    assert '"n": 1.10' in daemon.run("show", job_id, "--json").stdout


@pytest.mark.parametrize("script", ["true", 'touch -d "+1 minute" "$1"', "exit 3"])
def test_what_was_not_edited_is_not_replayed(daemon: Serving, script: str) -> None:
    job_id = dead(daemon)
    vi = editor(daemon.place, script)
    code, shown = answering(daemon, "", "dlq", "replay", job_id, "--edit", EDITOR=vi, VISUAL=vi)
    assert code != 0
    assert "Traceback" not in shown
    assert daemon.job(job_id)["status"] == "dead"


def test_what_is_no_longer_json_can_be_edited_again(daemon: Serving) -> None:
    job_id = dead(daemon)
    spoilt = 'grep -q oops "$1" && sed -i "s/oops//; s/bad/good/" "$1" || echo oops >> "$1"'
    vi = editor(daemon.place, spoilt + '\ntouch -d "+1 minute" "$1"')
    edit = ("dlq", "replay", job_id, "--edit")
    code, shown = answering(daemon, "y\n", *edit, EDITOR=vi, VISUAL=vi)
    assert (code, "not JSON" in shown) == (0, True), shown
    assert ended(daemon, job_id)["status"] == "completed"


def test_what_the_daemon_refuses_can_be_edited_again(daemon: Serving) -> None:
    job_id = dead(daemon)
    wrong_type = """grep -q bad "$1" && sed -i 's/"bad"/7/' "$1" || sed -i 's/7/"good"/' "$1\""""
    vi = editor(daemon.place, wrong_type + '\ntouch -d "+1 minute" "$1"')
    edit = ("dlq", "replay", job_id, "--edit")
    code, shown = answering(daemon, "y\n", *edit, EDITOR=vi, VISUAL=vi)
    assert (code, "payload.to: must be text, not 7" in shown) == (0, True), shown
    assert ended(daemon, job_id)["status"] == "completed"


def test_a_list_shows_why_they_died(daemon: Serving) -> None:
    job_id = dead(daemon, "fail", "{}")
    heading, first, *_ = daemon.run("dlq", "list", "--type", "fail").stdout.splitlines()
    assert heading.split() == ["ID", "TRIES", "DEAD", "FOR", "TYPE", "NOTE"]
    assert first.split()[:2] == [job_id, "1"]
    assert "it went wrong" in first
    page = json.loads(daemon.run("dlq", "list", "--type", "fail", "--json").stdout)
    assert page["jobs"][0]["id"] == job_id
    shown = on_terminal(daemon, 80, "dlq", "list", NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= 80
    assert daemon.run("dlq", "list", "--type", "none").stderr == "no dead jobs\n"


def test_a_list_that_was_cut_names_options_that_exist(daemon: Serving) -> None:
    ids = {dead(daemon, "fail", "{}") for _ in range(2)}
    cut = daemon.run("dlq", "list", "--type", "fail", "--limit", "1")
    assert cut.stderr == "there are more: --all lists them, --limit N some\n"
    found = daemon.run("dlq", "list", "--type", "fail", "--all", "--json").stdout
    assert ids <= {job["id"] for job in json.loads(found)["jobs"]}
    assert daemon.run("dlq", "list", "--all", "--limit", "1").returncode == 2


def test_one_is_shown_with_its_history(daemon: Serving) -> None:
    job_id = dead(daemon, "fail", "{}")
    assert "it went wrong" in daemon.run("dlq", "show", job_id).stdout
    found = json.loads(daemon.run("dlq", "show", job_id, "--json").stdout)
    assert (found["id"], len(found["attempts"]), found["changes"]) == (job_id, 1, [])
    alive = daemon.run("dlq", "show", daemon.submit("greet", "--delay", "1h"))
    assert (alive.returncode, "scheduled" in alive.stderr) == (1, True)


def test_some_are_discarded_and_what_is_not_dead_is_told(daemon: Serving) -> None:
    job_id, waiting = dead(daemon), daemon.submit("greet", "--delay", "1h")
    done = daemon.run("dlq", "discard", job_id, waiting, "--note", "never mind")
    assert (done.returncode, done.stdout) == (1, f"{job_id} discarded\n")
    assert done.stderr == "error: the job is scheduled; only dead jobs can be discarded\n"
    assert daemon.job(job_id)["status"] == "discarded"
    assert daemon.run("dlq", "discard", job_id).returncode == 2


def test_a_marked_type_is_replayed_on_purpose_only(daemon: Serving) -> None:
    job_id = dead(daemon, "marked", "{}")
    done = daemon.run("dlq", "replay", job_id)
    assert done.returncode == 1
    assert done.stderr == f"Error: {MARKED} Say so with --yes\n"
    assert answering(daemon, "n\n", "dlq", "replay", job_id)[0] != 0
    assert daemon.job(job_id)["status"] == "dead"
    assert answering(daemon, "y\n", "dlq", "replay", job_id)[0] == 0
    assert ended(daemon, job_id)["attempt"] == 2
    assert daemon.run("dlq", "replay", job_id, "--confirm").returncode == 0


def test_many_are_counted_first_and_replayed_when_it_is_meant(own_daemon: Serving) -> None:
    ids = [dead(own_daemon) for _ in range(3)]
    bulk = ("dlq", "replay", "--type", "picky")
    counted = own_daemon.run(*bulk, "--dry-run")
    assert counted.stdout == "3 dead jobs of type picky would be replayed\n"
    asked = own_daemon.run(*bulk)
    assert asked.returncode == 2
    assert "replay 3 dead jobs of type picky? Say so with --yes" in asked.stderr
    code, shown = answering(own_daemon, "n\n", *bulk)
    assert (code, "replay 3 dead jobs of type picky? [y/N]" in shown) == (130, True)
    assert len(json.loads(own_daemon.run("dlq", "list", "--json").stdout)["jobs"]) == 3
    some = own_daemon.run(*bulk, "--limit", "2", "--pace", "1/h", "--yes", "--json")
    assert json.loads(some.stdout)["ids"] == ids[:2]
    assert own_daemon.job(ids[1])["status"] == "scheduled"
    # The first ran at once, in vain.
    assert ended(own_daemon, ids[0])["status"] == "dead"
    code, shown = answering(own_daemon, "y\n", *bulk, "--note", "once more")
    assert (code, "2 dead jobs of type picky replayed" in shown) == (0, True)
    assert ended(own_daemon, ids[2])["changes"][0]["note"] == "once more"


def test_what_dies_again_is_not_replayed_again(own_daemon: Serving) -> None:
    """However fast it dies: a command that replays it over and over would never end."""
    ids = [dead(own_daemon) for _ in range(3)]
    done = own_daemon.run("dlq", "replay", "--type", "picky", "--yes")
    assert done.stdout == "3 dead jobs of type picky replayed\n"
    assert [ended(own_daemon, one)["attempt"] for one in ids] == [2, 2, 2]
    nothing = own_daemon.run("dlq", "replay", "--type", "greet", "--yes")
    assert (nothing.returncode, nothing.stderr) == (0, "no dead jobs of type greet\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--type"),
        (("x", "--type", "picky"), "one of them"),
        (("--type", "picky", "--payload", "1"), "for one job"),
        (("--type", "picky", "--edit"), "for one job"),
        (("x", "--limit", "2"), "--type"),
        (("x", "--dry-run"), "--type"),
        (("x", "--payload", "1", "--edit"), "exclude"),
        (("x", "--payload", "{"), "not JSON"),
        (("x", "--edit"), "needs a terminal"),
        (("--type", "picky", "--pace", "fast"), "10/s"),
        (("--type", "picky", "--pace", "0/s"), "10/s"),
        (("--type", "picky", "--pace", "1/day"), "10/s"),
    ],
)
def test_wrong_usage_is_told(daemon: Serving, arguments: tuple[str, ...], told: str) -> None:
    done = daemon.run("dlq", "replay", *arguments)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_a_type_that_never_was_is_told(daemon: Serving) -> None:
    done = daemon.run("dlq", "replay", "--type", "pickie", "--yes")
    assert done.returncode == 1
    assert "picky" in done.stderr
