"""`jobqueued wait`."""

from __future__ import annotations

import time

import click

from jobqueued.cli.options import check_ids, json_option, seconds, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.waiting import wait_for


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, callback=check_ids)
@click.option("--timeout", type=seconds, metavar="DURATION", help="Give up after: 90s, 5m, 24h.")
@json_option
@with_target
def wait(target: Target, ids: tuple[str, ...], timeout: float | None, as_json: bool) -> None:
    """Wait for the end of jobs; exit 0 when all completed."""
    daemon = target.daemon()
    deadline = None if timeout is None else time.monotonic() + timeout
    statuses = []
    for job_id in ids:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        answer = wait_for(daemon, job_id, left)
        statuses.append(answer.document()["status"])
        click.echo(answer.body if as_json else f"{job_id} {statuses[-1]}")
    if any(status != "completed" for status in statuses):
        raise click.exceptions.Exit(1)
