"""`jobqueued cancel`: the jobs named, or all that fit a filter."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from jobqueued.cli.act import act
from jobqueued.cli.bar import open_bar
from jobqueued.cli.filters import explain_nothing, given, with_filters
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import many
from jobqueued.cli.waiting import ask_patiently
from jobqueued.client.daemon import Daemon
from jobqueued.model.job import CANCELLABLE, WAITING, Status

Document = dict[str, Any]


@click.command()
@click.argument("ids", metavar="[ID...]", nargs=-1, callback=check_ids)
@with_filters(status for status in Status if status in CANCELLABLE)
@click.option("--running", is_flag=True, help="Running jobs too, beside those that wait.")
@click.option("--dry-run", is_flag=True, help="Only say how many fit.")
@click.option("--yes", is_flag=True, help="Do not ask first.")
@json_option
@with_target
def cancel(
    target: Target,
    ids: tuple[str, ...],
    statuses: tuple[str, ...],
    running: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Cancel the jobs named, or all that fit.

    A running job is stopped. With filters, those are counted first and a question
    is asked; jobs that run are left alone without --running or --status
    processing, and so are those submitted meanwhile.
    """
    wanted: Document = dict(given(filters))
    if running or statuses:
        wanted["status"] = sorted({*(statuses or WAITING), *([Status.PROCESSING] * running)})
    if ids and (wanted or dry_run):
        raise click.UsageError("name jobs by their ids or by filters, not both")
    if ids:
        act(target, "cancel", ids, as_json)
    elif not wanted:
        raise click.UsageError("which jobs? Name their ids, or filters such as --type TYPE")
    else:
        _cancel_fitting(target.daemon(), wanted, dry_run, yes, as_json)


def _cancel_fitting(
    daemon: Daemon, wanted: Document, dry_run: bool, yes: bool, as_json: bool
) -> None:
    counted = _ask(daemon, wanted | {"dry_run": True, "limit": 1})
    if not counted["count"]:
        explain_nothing(daemon, wanted.get("type"))
    if dry_run:
        fitting = {"count": counted["count"], "more": counted["more"]}
        click.echo(json.dumps(fitting) if as_json else f"{_number(counted)} would be cancelled")
        return
    if counted["count"] and not yes:
        _agree(counted)
    done = _cancel_all(daemon, wanted | {"cursor": counted["cursor"]}, counted)
    click.echo(json.dumps(done) if as_json else _told(done))


def _agree(counted: Document) -> None:
    """Go on only when somebody says so."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{_number(counted)} would be cancelled: say --yes to do it")
    if not click.confirm(f"Cancel {_number(counted)}?", err=True):
        click.echo("nothing was cancelled", err=True)
        raise click.exceptions.Exit(1)


def _cancel_all(daemon: Daemon, wanted: Document, counted: Document) -> Document:
    """Step by step, until nothing is left that was there when it was counted."""
    done = {"count": 0, "stopping": 0}
    total = None if counted["more"] else counted["count"]
    more = bool(counted["count"])
    with open_bar("cancel") as bar:
        while more:
            step = _ask(daemon, wanted)
            wanted, more = wanted | {"cursor": step["cursor"]}, step["more"]
            done = {name: done[name] + step[name] for name in done}
            bar.update(done["count"], total, bar.counted(done["count"], "jobs"))
    return done


def _ask(daemon: Daemon, wanted: Document) -> Document:
    body = json.dumps(wanted).encode()
    answer = ask_patiently(daemon, lambda: daemon.post("/jobs/cancel", body))
    document: Document = answer.document()
    return document


def _number(counted: Document) -> str:
    bound = "more than " if counted["more"] else ""
    return bound + many(counted["count"], "job")


def _told(done: Document) -> str:
    told = f"cancelled {many(done['count'] - done['stopping'], 'job')}"
    return f"{told}, stopping {done['stopping']:,} that run" if done["stopping"] else told
