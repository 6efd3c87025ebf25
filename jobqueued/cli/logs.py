"""`jobqueued logs`."""

from __future__ import annotations

import json

import click

from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.client.daemon import job_path


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt, not of the latest.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@json_option
@with_target
def logs(target: Target, job_id: str, attempt: int | None, follow: bool, as_json: bool) -> None:
    """Print what a job wrote."""
    if follow and as_json:
        raise click.UsageError("--follow prints text as it comes; it does not go with --json")
    query = [("attempt", str(attempt))] if attempt else []
    query += [("follow", "1")] if follow else []
    chunks = target.daemon().stream(job_path(job_id, "logs"), query)
    if as_json:
        text = b"".join(chunks).decode(errors="replace")
        click.echo(json.dumps({"id": job_id, "attempt": attempt, "log": text}))
        return
    for chunk in chunks:
        click.echo(chunk, nl=False)
