"""`jobqueued dlq`: what died, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import click

from jobqueued.cli.documents import parts
from jobqueued.cli.errors import describe
from jobqueued.cli.list import Layout, print_pages, since, with_extent
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.pages import Pages
from jobqueued.cli.replay import replay
from jobqueued.cli.show import draw
from jobqueued.cli.target import Target
from jobqueued.cli.text import plain
from jobqueued.client.daemon import dead_path
from jobqueued.client.errors import Problem


@click.group()
def dlq() -> None:
    """Dead jobs: look at them, replay them, discard them."""


def _cells(job: dict[str, Any]) -> tuple[str, ...]:
    return plain(job["id"]), str(job["attempt"]), since(job["finished_at"])


DEAD = Layout("dead jobs", ("ID", "TRIES", "DEAD FOR"), (36, 5, 8), _cells)


@dlq.command(name="list")
@click.option("--type", "kind", metavar="TYPE", help="Only of this type.")
@with_extent
@json_option
@with_target
def list_dead(
    target: Target, kind: str | None, wanted: int | None, cursor: str | None, as_json: bool
) -> None:
    """List dead jobs, newest first, each with its last error."""
    query = [("type", kind)] if kind is not None else []
    print_pages(Pages(target.daemon(), query, wanted, cursor, "/dlq"), DEAD, as_json)


@dlq.command()
@click.argument("job_id", metavar="ID", callback=check_ids)
@json_option
@with_target
def show(target: Target, job_id: str, as_json: bool) -> None:
    """Show a dead job, its attempts, and what people did to it.

    `jobqueued logs ID --attempt N` prints what one of its attempts wrote.
    """
    body = target.daemon().get(dead_path(job_id)).body
    if as_json:
        click.echo(body)
    else:
        draw(parts(body))


@dlq.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, callback=check_ids)
@click.option("--note", required=True, metavar="TEXT", help="Why; it stays with the job.")
@json_option
@with_target
def discard(target: Target, ids: tuple[str, ...], note: str, as_json: bool) -> None:
    """Give dead jobs up for good.

    They stay on record, with the note, as long as `retention.dead` says.
    """
    daemon, refused = target.daemon(), False
    for job_id in ids:
        try:
            answer = daemon.post(dead_path(job_id, "discard"), json.dumps({"note": note}).encode())
        except Problem as problem:
            describe(problem)
            refused = True
            continue
        click.echo(answer.body if as_json else f"{job_id} discarded")
    if refused:
        raise click.exceptions.Exit(1)


dlq.add_command(replay)
