"""`jobqueued progress`: runs inside jobs, often, so it imports next to nothing."""

from __future__ import annotations

import json
import os

import click

from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import coloured

REASONS = {
    "cancelled": "the job is being cancelled: stop",
    "stale": "this attempt no longer holds the job: stop, another one may be running",
}


@click.command()
@click.argument("percent", type=click.FloatRange(0, 100))
@click.argument("message", required=False)
@json_option
@with_target
def progress(target: Target, percent: float, message: str | None, as_json: bool) -> None:
    """Report from inside a job how far it is: PERCENT from 0 to 100."""
    token = os.environ.get("JOB_LEASE_TOKEN")
    if not token:
        raise click.UsageError(
            "there is no $JOB_LEASE_TOKEN: this command works inside a job that jobqueued runs"
        )
    beat = {"token": token, "progress": {"percent": percent, "message": message}}
    body = json.dumps({"leases": [beat]}).encode()
    answer = target.daemon().post("/leases/heartbeat", body)
    if as_json:
        click.echo(answer.body)
    status = answer.document()["leases"][0]["status"]
    if status != "ok":
        click.echo(f"{coloured('error:', 'red')} {REASONS.get(status, status)}", err=True)
        raise click.exceptions.Exit(1)
