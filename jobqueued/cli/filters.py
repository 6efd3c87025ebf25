"""Which jobs a command is about: the filters of the API as options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from jobqueued.cli.errors import note
from jobqueued.cli.options import Command
from jobqueued.client.daemon import Daemon, type_path
from jobqueued.client.errors import Problem

Filters = dict[str, str | None]

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--type", metavar="TYPE", help="Only of this type."),
    click.option("--batch-id", "--batch", "batch_id", metavar="ID", help="Only of this batch."),
    click.option("--correlation-id", metavar="TEXT", help="Only with this one."),
    click.option("--idempotency-key", metavar="TEXT", help="Only with this one."),
    click.option("--key", metavar="TEXT", help="Only with this one."),
    click.option("--created-after", metavar="TIME", help="As in 2026-01-31T12:00:00Z."),
    click.option("--created-before", metavar="TIME", help="The same."),
)


def with_filters(statuses: Iterable[str]) -> Callable[[Command], Command]:
    """Add the options; the command gets `statuses`, and the others by the names of the API."""
    names = [str(status) for status in statuses]
    status = click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice(names),
        metavar="STATUS",
        help=f"{', '.join(names)}; may be given several times.",
    )

    def add(command: Command) -> Command:
        for option in reversed((status, *_OPTIONS)):
            command = option(command)
        return command

    return add


def given(filters: Filters) -> dict[str, str]:
    """Those that were given."""
    return {name: text for name, text in filters.items() if text is not None}


def query_of(statuses: Iterable[str], filters: Filters) -> list[tuple[str, str]]:
    """The filters as a query string has them."""
    return [*(("status", status) for status in statuses), *given(filters).items()]


def explain_nothing(daemon: Daemon, job_type: str | None) -> None:
    """Where nothing fits: say so if the type is none, as after a slip of the finger."""
    if job_type is None:
        return
    try:
        daemon.get(type_path(job_type))
    except Problem as problem:
        note(problem.detail)
