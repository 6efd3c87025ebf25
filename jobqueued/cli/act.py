"""`jobqueued run`, and what it shares with `cancel`: one request for each job named."""

from __future__ import annotations

import click

from jobqueued.cli.errors import describe
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.client.daemon import job_path
from jobqueued.client.errors import Problem


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, callback=check_ids)
@json_option
@with_target
def run(target: Target, ids: tuple[str, ...], as_json: bool) -> None:
    """Run jobs now that are scheduled or wait for a retry."""
    act(target, "run", ids, as_json)


def act(target: Target, action: str, ids: tuple[str, ...], as_json: bool) -> None:
    """Ask for every job, tell every refusal, and exit 1 when there was one."""
    daemon, refused = target.daemon(), False
    for job_id in ids:
        try:
            answer = daemon.post(job_path(job_id, action))
        except Problem as problem:
            describe(problem)
            refused = True
            continue
        status = answer.document()["status"]
        told = "stopping" if (action, status) == ("cancel", "processing") else status
        click.echo(answer.body if as_json else f"{job_id} {told}")
    if refused:
        raise click.exceptions.Exit(1)
