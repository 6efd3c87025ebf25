"""`jobqueued why`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from jobqueued import clock
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import distance, plain
from jobqueued.client.daemon import Daemon, job_path, type_path

TO_DO = {
    "scheduled": ("`jobqueued run {id}` runs it now",),
    "retry_backoff": (
        "`jobqueued run {id}` runs it now",
        "`jobqueued logs {id}` shows its output",
    ),
    "disk_full": ("make space on the disk of the database",),
    "no_worker": (
        "remote types need a worker, such as `jobqueued work {type} -- COMMAND`;",
        "others have to be in the configuration",
    ),
    "type_paused": ("`jobqueued resume {type}` starts jobs of this type again",),
    "breaker_open": ("`jobqueued dlq list --type {type}` shows what died of it",),
    "type_limit": (
        "`jobqueued list --type {type} --status processing` shows them;",
        "`max_running` of the type and `max_share` of its pool say how many may run",
    ),
    "key_limit": ("`max_running_per_key` of the type says how many may run",),
    "rate_limited": ("`rate` of the type says how often jobs start",),
    "pool_full": ("`workers` of the pool says how many may run",),
}
"""What an operator can do, line by line, by the code of the reason."""


@click.command()
@click.argument("job_id", metavar="[ID]", required=False, callback=check_ids)
@click.option("--type", "job_type", metavar="TYPE", help="Sum up all waiting jobs of this type.")
@json_option
@with_target
def why(target: Target, job_id: str | None, job_type: str | None, as_json: bool) -> None:
    """Say why a job is not running, and when it may start."""
    if (job_id is None) == (job_type is None):
        raise click.UsageError("name a job by its ID, or a type with --type")
    path = job_path(job_id, "why") if job_id is not None else type_path(job_type or "", "why")
    answer = target.daemon().get(path)
    if as_json:
        click.echo(answer.body)
    else:
        lines = _of_job if job_id is not None else _of_type
        _print(lines(answer.document()))


def first_reason(daemon: Daemon, job_id: str) -> str:
    """What holds a waiting job before all else."""
    answer = daemon.get(job_path(job_id, "why")).document()
    told = answer["reasons"][0] if answer["reasons"] else answer
    return str(told["detail"])


def _print(lines: Iterator[str]) -> None:
    from jobqueued.cli.screen import console

    screen = console()
    for line in lines:
        screen.print(plain(line))


def _reason(reason: dict[str, Any], job_type: str, job_id: str) -> Iterator[str]:
    yield f"{reason['code']}: {reason['detail']}"
    for line in TO_DO.get(reason["code"], ()):
        yield f"  {line.format(id=job_id, type=job_type)}"


def _of_job(why: dict[str, Any]) -> Iterator[str]:
    yield f"{why['status']}, type {why['type']}"
    for reason in why["reasons"]:
        yield from _reason(reason, why["type"], why["id"])
    if not why["reasons"]:
        yield why["detail"]
    if why["status"] in ("scheduled", "pending", "retrying"):
        yield from _prospects(why)


def _prospects(why: dict[str, Any]) -> Iterator[str]:
    now, start, expiry = clock.now(), why["estimated_start"], why["expires_at"]
    if why["ahead"] and all(reason["code"] != "jobs_ahead" for reason in why["reasons"]):
        yield f"ahead of it: {'more than ' if why['more_ahead'] else ''}{why['ahead']:,}"
    unknown = f": {why['unknown_because']}" if why["unknown_because"] else ""
    when = f"nobody can tell{unknown}" if start is None else f"{start} ({distance(start, now)})"
    yield f"estimated start: {when}"
    if expiry is not None:
        early = " before it would start" if start is not None and start > expiry else ""
        yield f"expires{early}: {expiry} ({distance(expiry, now)})"


def _of_type(why: dict[str, Any]) -> Iterator[str]:
    for reason in why["gates"]:
        yield from _reason(reason, why["type"], "ID")
    if not why["gates"]:
        yield f"nothing holds type {why['type']}"
    told = {reason["code"] for reason in why["gates"]}
    for share in why["backlog"]:
        detail = "" if share["code"] in told else f": {share['detail']}"
        yield f"{share['jobs']:>9,}  {share['code'] or 'ready'}{detail}"
    if not why["backlog"]:
        yield "no jobs of it wait"
