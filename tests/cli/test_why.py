"""`jobqueued why`, and the line of `show` that has the same."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.cli.support import Done, Serving


def test_a_paused_type_is_told_with_what_to_do(daemon: Serving) -> None:
    daemon.run("pause", "quiet", "--note", "the printer burns")
    job_id = daemon.submit("quiet")
    done = daemon.run("why", job_id)
    assert done.returncode == 0
    head, paused, to_do, *rest = done.stdout.splitlines()
    assert head == "pending, type quiet"
    assert paused.startswith("type_paused: type quiet was paused at ")
    assert paused.endswith(": the printer burns")
    assert to_do == "  `jobqueued resume quiet` starts jobs of this type again"
    assert rest == ["estimated start: nobody can tell"]
    shown = [line.split() for line in daemon.run("show", job_id).stdout.splitlines()]
    assert ["why", "type", "quiet", "was", "paused"] in [words[:5] for words in shown]
    told = json.loads(daemon.run("why", job_id, "--json").stdout)
    assert [reason["code"] for reason in told["reasons"]] == ["type_paused"]
    whole = daemon.run("why", "--type", "quiet").stdout
    # What holds the type is told once, with what to do.
    assert whole.splitlines()[1:] == [to_do, "        1  type_paused"]
    daemon.run("resume", "quiet")
    assert daemon.run("wait", job_id).returncode == 0
    assert daemon.run("why", job_id).stdout.splitlines()[1].startswith("it is over: completed")
    assert daemon.run("why", "--type", "quiet").stdout == (
        "nothing holds type quiet\nno jobs of it wait\n"
    )


def test_a_scheduled_job_can_be_run_now(daemon: Serving) -> None:
    job_id = daemon.submit("quiet", "--delay", "1h", "--expires-in", "2h")
    told = daemon.run("why", job_id).stdout
    assert f"`jobqueued run {job_id}` runs it now" in told
    assert "estimated start: " in told
    assert "expires: " in told
    assert daemon.run("cancel", job_id).returncode == 0


def test_after_a_restart_nobody_can_tell_and_it_is_said_why(own_daemon: Serving) -> None:
    path = own_daemon.place / "jobqueued.toml"
    path.write_text(path.read_text().replace("[types.gate]", "[types.gate]\nmax_running = 1"))
    own_daemon.stop()
    own_daemon.start()
    own_daemon.at_the_gate()
    job_id = own_daemon.submit("gate")
    told = own_daemon.run("why", job_id).stdout
    unknown = "no job of type gate has completed since the daemon started"
    assert f"estimated start: nobody can tell: {unknown}" in told
    assert own_daemon.run("cancel", job_id).returncode == 0
    own_daemon.open_gate()


def test_either_a_job_or_a_type_is_asked_for(daemon: Serving) -> None:
    assert daemon.run("why").returncode == 2
    assert daemon.run("why", "x", "--type", "quiet").returncode == 2
    assert daemon.run("why", "nothing").returncode == 1
    assert 'did you mean "quiet"' in daemon.run("why", "--type", "qiet").stderr


def test_without_a_daemon_the_usual_is_said(run: Callable[..., Done]) -> None:
    done = run("why", "some-id", "--url", "unix:/nowhere")
    assert done.returncode == 69
    assert "no daemon answers" in done.stderr
