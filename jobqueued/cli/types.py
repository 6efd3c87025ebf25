"""`jobqueued types`, `jobqueued pause` and `jobqueued resume`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from jobqueued import clock
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import distance, plain, span
from jobqueued.client.daemon import type_path
from jobqueued.client.errors import Problem

if TYPE_CHECKING:
    from rich.console import Console

SETTINGS = (
    "kind", "pool", "max_running", "max_running_per_key", "rate", "timeout", "max_retries",
    "priority", "confirm_replay", "payload_schema",
)  # fmt: skip


@click.command()
@click.argument("name", metavar="[TYPE]", required=False)
@json_option
@with_target
def types(target: Target, name: str | None, as_json: bool) -> None:
    """Show the types of job and what holds them."""
    answer = target.daemon().get("/types" if name is None else type_path(name))
    if as_json:
        click.echo(answer.body)
    elif name is None:
        _draw_all(answer.document()["types"])
    else:
        _draw_one(answer.document())


@click.command()
@click.argument("names", metavar="TYPE...", nargs=-1, required=True)
@click.option("--note", metavar="TEXT", help="Why; shown to whoever asks what holds the jobs.")
@json_option
@with_target
def pause(target: Target, names: tuple[str, ...], note: str | None, as_json: bool) -> None:
    """Start no more jobs of a type, until it is resumed.

    Jobs that run may finish, new ones are accepted and wait. It holds through
    restarts of the daemon.
    """
    body = None if note is None else json.dumps({"note": note}).encode()
    _act(target, "pause", names, body, as_json)


@click.command()
@click.argument("names", metavar="TYPE...", nargs=-1, required=True)
@json_option
@with_target
def resume(target: Target, names: tuple[str, ...], as_json: bool) -> None:
    """Start jobs of a paused type again."""
    _act(target, "resume", names, None, as_json)


def _act(
    target: Target, action: str, names: tuple[str, ...], body: bytes | None, as_json: bool
) -> None:
    from jobqueued.cli.errors import describe

    daemon, refused = target.daemon(), False
    for name in names:
        try:
            answer = daemon.post(type_path(name, action), body)
        except Problem as problem:
            describe(problem)
            refused = True
            continue
        told = holds(answer.document()) or ["runs"]
        click.echo(answer.body if as_json else f"{name}: {'; '.join(told)}")
    if refused:
        raise click.exceptions.Exit(1)


def holds(job_type: dict[str, Any]) -> list[str]:
    """What an operator should know holds a type, in words; other limits are daily business."""
    return [plain(text) for text in _holds(job_type, clock.now())]


def _holds(job_type: dict[str, Any], now: int) -> Iterator[str]:
    paused, breaker = job_type["paused"], job_type["breaker"]
    if not job_type["configured"]:
        yield "not configured, nobody runs its jobs"
    if paused is not None:
        note = f": {paused['note']}" if paused["note"] else ""
        yield f"paused {distance(paused['since'], now)} by {paused['by']}{note}"
    if breaker["state"] in ("open", "probing"):
        following = "one job is being tried"
        if breaker["state"] == "open":
            following = f"the next job is tried {distance(breaker['until'], now)}"
        yield f"breaker opened {distance(breaker['since'], now)}, {following}"
        yield breaker["reason"]


def _draw_all(found: list[dict[str, Any]]) -> None:
    from jobqueued.cli.screen import console, print_table, table_of_names

    if not found:
        click.echo("no types", err=True)
        return
    screen = console()
    drawn = table_of_names("TYPE", "KIND", "WAITING", "RUNNING", "MOST", "RATE", "P95", "STATE")
    for column in drawn.columns[2:7]:
        column.justify = "right"
    for each in found:
        drawn.add_row(*_row(each))
    print_table(screen, drawn)
    _draw_holds(screen, found)


def _row(job_type: dict[str, Any]) -> tuple[str, ...]:
    counts, p95 = job_type["counts"], job_type["durations"]["p95_ms"]
    waiting = sum(counts.get(status, 0) for status in ("scheduled", "pending", "retrying"))
    return (
        plain(job_type["name"]),
        job_type["kind"] or "",
        str(waiting),
        str(job_type["running"]),
        _or_dash(job_type["max_running"]),
        _or_dash(job_type["rate"]),
        "-" if p95 is None else span(p95 / 1000),
        state_of(job_type),
    )


def state_of(job_type: dict[str, Any]) -> str:
    """In a word or two."""
    if not job_type["configured"]:
        return "not configured"
    if job_type["paused"] is not None:
        return "paused"
    breaker = job_type["breaker"]["state"]
    return {"open": "breaker open", "probing": "breaker open"}.get(breaker, "")


def _draw_holds(screen: Console, found: list[dict[str, Any]]) -> None:
    told = [(each["name"], holds(each)) for each in found]
    for name, reasons in told:
        for reason in reasons:
            screen.print(f"{plain(name)}: {reason}", soft_wrap=False)


def _draw_one(job_type: dict[str, Any]) -> None:
    from jobqueued.cli.screen import console, print_table, table

    drawn = table("", "")
    drawn.show_header = False
    drawn.columns[1].no_wrap, drawn.columns[1].overflow = False, "fold"
    drawn.add_row("type", plain(job_type["name"]))
    for name in SETTINGS:
        if (value := job_type.get(name)) not in (None, False):
            drawn.add_row(name, plain(str(value)))
    drawn.add_row("breaker", job_type["breaker"]["state"])
    counts = ", ".join(f"{number} {status}" for status, number in job_type["counts"].items())
    drawn.add_row("jobs", counts or "none")
    drawn.add_row("rates", _rates(job_type["rates"]))
    drawn.add_row("durations", _durations(job_type["durations"]))
    for reason in holds(job_type):
        drawn.add_row("held", reason)
    print_table(console(), drawn)


def _rates(rates: dict[str, float]) -> str:
    return ", ".join(f"{rate:g}/s {event}" for event, rate in rates.items())


def _durations(durations: dict[str, Any]) -> str:
    if not durations["count"]:
        return "none yet"
    half, most = (span(durations[name] / 1000) for name in ("p50_ms", "p95_ms"))
    return f"half within {half}, 95 % within {most} (the last {durations['count']})"


def _or_dash(setting: object) -> str:
    return "-" if setting is None else str(setting)
