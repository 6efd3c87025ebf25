"""`jobqueued dlq replay`: one dead job, with a corrected payload where that helps, or many."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from jobqueued.cli.documents import indented, one_line, parts
from jobqueued.cli.errors import describe
from jobqueued.cli.errors import note as tell
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.replay_many import Many, pace, replay_many
from jobqueued.cli.submit import read_payload
from jobqueued.cli.target import Target
from jobqueued.client.daemon import Answer, Daemon, dead_path
from jobqueued.client.errors import Problem

MARKED = "jobs of this type are replayed on purpose only; replay it?"


@click.command()
@click.argument("job_id", metavar="[ID]", required=False)
@click.option("--payload", metavar="JSON or -", help="Run it with this payload from now on.")
@click.option("--edit", is_flag=True, help="Correct the payload in $EDITOR, then run it.")
@click.option("--type", "kind", metavar="TYPE", help="All dead jobs of this type, oldest first.")
@click.option("--limit", type=click.IntRange(1), help="With --type: at most so many.")
@click.option("--pace", type=pace, metavar="RATE", help="With --type: so many a time, as 10/s.")
@click.option("--dry-run", is_flag=True, help="With --type: only say how many there are.")
@click.option("--note", metavar="TEXT", help="Why; it stays with the job.")
@click.option("--yes", "--confirm", "yes", is_flag=True, help="Do not ask; it is meant.")
@json_option
@with_target
def replay(
    target: Target,
    job_id: str | None,
    payload: str | None,
    edit: bool,
    kind: str | None,
    note: str | None,
    yes: bool,
    as_json: bool,
    **many: Any,
) -> None:
    """Run dead jobs again, with fresh attempts.

    With ID one job, with --type many. `--edit` and `--payload` correct the payload of
    one; what it was stays on record.
    """
    if kind is not None:
        _refuse_with_type(job_id, payload, edit)
        replay_many(target.daemon(), Many(kind, note=note, yes=yes, as_json=as_json, **many))
        return
    if not job_id:
        raise click.UsageError("name one job by its ID, or many with --type TYPE")
    if any(many.values()):
        raise click.UsageError("--limit, --pace and --dry-run go with --type")
    if edit and payload is not None:
        raise click.UsageError("--edit and --payload exclude each other")
    daemon = target.daemon()
    if edit:
        answer = _replay_edited(daemon, job_id, note, yes)
    else:
        answer = _replay_one(daemon, job_id, read_payload(payload), note, yes)
    click.echo(answer.body if as_json else f"{job_id} {answer.document()['status']}")


def _refuse_with_type(job_id: str | None, payload: str | None, edit: bool) -> None:
    if job_id is not None:
        raise click.UsageError("an ID means one job, --type many: give one of them")
    if edit or payload is not None:
        raise click.UsageError("--edit and --payload are for one job: name it by its ID")


def _replay_one(
    daemon: Daemon, job_id: str, payload: bytes | None, note: str | None, yes: bool
) -> Answer:
    try:
        return _post(daemon, job_id, payload, note, yes)
    except Problem as problem:
        if problem.code != "confirm_needed":
            raise
    if not sys.stdin.isatty():
        raise click.ClickException(f"{MARKED} Say so with --yes")
    click.confirm(MARKED, abort=True, err=True)
    return _post(daemon, job_id, payload, note, True)


def _post(
    daemon: Daemon, job_id: str, payload: bytes | None, note: str | None, confirm: bool
) -> Answer:
    fields = {"confirm": confirm} | ({} if note is None else {"note": note})
    body = json.dumps(fields).encode()
    if payload is not None:
        body = body[:-1] + b', "payload": ' + payload + b"}"
    return daemon.post(dead_path(job_id, "replay"), body)


def _replay_edited(daemon: Daemon, job_id: str, note: str | None, yes: bool) -> Answer:
    """Replay it as it comes out of the editor, which opens again when that is refused."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--edit needs a terminal; elsewhere give --payload JSON, or -")
    raw = parts(daemon.get(dead_path(job_id)).body)["payload"]
    text = indented(raw) + "\n"
    while True:
        text = click.edit(text, extension=".json") or text
        try:
            payload = read_payload(text)
            if payload and one_line(payload) != one_line(raw):
                return _replay_one(daemon, job_id, payload, note, yes)
        except click.UsageError as error:
            tell(error.message)
        except Problem as problem:
            if not problem.errors:
                raise
            describe(problem)
        else:
            raise click.UsageError("the payload is as it was; leave --edit out to replay it so")
        click.confirm("edit again?", default=True, abort=True, err=True)
