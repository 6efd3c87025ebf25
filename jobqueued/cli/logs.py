"""`jobqueued logs`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import click

from jobqueued.cli.documents import is_terminal
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import coloured
from jobqueued.client.daemon import Daemon, job_path

PAUSE = 0.5
"""Seconds between two looks for the next attempt of a job that waits for it."""


@click.command()
@click.argument("job_id", metavar="ID", callback=check_ids)
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt, not of the latest.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@json_option
@with_target
def logs(target: Target, job_id: str, attempt: int | None, follow: bool, as_json: bool) -> None:
    """Print what a job wrote in its latest attempt.

    With -f it goes on through every further attempt to the end of the job; on a
    terminal a line tells them apart. With --attempt as well it ends with that one.
    """
    if follow and as_json:
        raise click.UsageError("--follow prints text as it comes; it does not go with --json")
    daemon = target.daemon()
    if follow and attempt is None and sys.stdout.isatty():
        chunks = follow_apart(daemon, job_id)
    else:
        chunks = _stream(daemon, job_id, attempt, follow)
    if as_json:
        text = b"".join(chunks).decode(errors="replace")
        click.echo(json.dumps({"id": job_id, "attempt": attempt, "log": text}))
        return
    for chunk in chunks:
        click.echo(chunk, nl=False)


def follow_apart(daemon: Daemon, job_id: str) -> Iterator[bytes]:
    """Output from the latest attempt on to the end of the job, a line before each further one."""
    job = daemon.get(job_path(job_id)).document()
    first = number = max(1, job["attempt"])
    while job["attempt"] >= number or not is_terminal(job["status"]):
        if job["attempt"] >= number:
            if number > first:
                yield coloured(f"--- attempt {number} ---\n", "cyan").encode()
            yield from _stream(daemon, job_id, number, follow=True)
            number += 1
        else:
            time.sleep(PAUSE)
        job = daemon.get(job_path(job_id)).document()


def _stream(daemon: Daemon, job_id: str, attempt: int | None, follow: bool) -> Iterator[bytes]:
    query = [("attempt", str(attempt))] if attempt else []
    query += [("follow", "1")] if follow else []
    return daemon.stream(job_path(job_id, "logs"), query)
