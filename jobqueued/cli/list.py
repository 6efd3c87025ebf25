"""`jobqueued list`."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from jobqueued import clock
from jobqueued.cli.documents import items, parts, value
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import milliseconds, plain, span
from jobqueued.client.daemon import Daemon
from jobqueued.model.job import Status

LARGEST_PAGE = 500
WIDTHS = (36, 10, 5, 8)
"""Columns before the type, which takes what is left; pages line up below each other."""


@click.command(name="list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in Status]),
    metavar="STATUS",
    help="May be given several times.",
)
@click.option("--type", metavar="TYPE")
@click.option("--batch", "batch_id", metavar="ID")
@click.option("--correlation-id", metavar="TEXT")
@click.option("--idempotency-key", metavar="TEXT")
@click.option("--key", metavar="TEXT")
@click.option("--created-after", metavar="TIME", help="RFC 3339, as 2026-01-31T12:00:00Z.")
@click.option("--created-before", metavar="TIME")
@click.option("--limit", type=click.IntRange(1), help="How many (50), unless --all.")
@click.option("--cursor", metavar="TEXT", help="Go on where an earlier list ended.")
@click.option("--all", "everything", is_flag=True, help="All of them, page by page.")
@json_option
@with_target
def list_jobs(
    target: Target,
    statuses: tuple[str, ...],
    limit: int | None,
    cursor: str | None,
    everything: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """List jobs, newest first."""
    if everything and limit is not None:
        raise click.UsageError("--all and --limit exclude each other")
    query = [("status", status) for status in statuses]
    query += [(name, text) for name, text in filters.items() if text is not None]
    wanted = None if everything else limit or 50
    pages = Pages(target.daemon(), query, wanted, cursor)
    if as_json:
        _print_json(pages)
    else:
        _print_table(pages)


class Pages:
    """The jobs of a list, asked for page by page; `cursor` is where the next page starts."""

    def __init__(
        self,
        daemon: Daemon,
        query: list[tuple[str, str]],
        wanted: int | None,
        cursor: str | None,
    ) -> None:
        self._daemon = daemon
        self._query = query
        self._wanted = wanted
        self.cursor = cursor

    def __iter__(self) -> Iterator[list[msgspec.Raw]]:
        while self._wanted is None or self._wanted > 0:
            page = self._ask()
            if self._wanted is not None:
                self._wanted -= len(page)
            yield page
            if self.cursor is None:
                return

    def _ask(self) -> list[msgspec.Raw]:
        size = LARGEST_PAGE if self._wanted is None else min(self._wanted, LARGEST_PAGE)
        query = [*self._query, ("limit", str(size))]
        if self.cursor is not None:
            query.append(("cursor", self.cursor))
        page = parts(self._daemon.get("/jobs", query).body)
        self.cursor = value(page["next_cursor"])
        return items(page["jobs"])


def _print_json(pages: Pages) -> None:
    """One document in the shape of the API, written as the pages come."""
    separator = b'{"jobs": ['
    for page in pages:
        for job in page:
            click.echo(separator + bytes(job), nl=False)
            separator = b",\n"
    start = separator if separator.startswith(b"{") else b""
    click.echo(start + b'], "next_cursor": ' + msgspec.json.encode(pages.cursor) + b"}")


def _print_table(pages: Pages) -> None:
    from jobqueued.cli.screen import console

    screen, found = console(), False
    for page in pages:
        if page:
            screen.print(_table(page, headed=not found))
            found = True
    if not found:
        click.echo("no jobs", err=True)
    elif pages.cursor is not None:
        click.echo("there are more: --all lists them, --limit N some", err=True)


def _table(page: list[msgspec.Raw], headed: bool) -> object:
    from jobqueued.cli.screen import status_text, table

    drawn = table("ID", "STATUS", "TRIES", "AGE", "TYPE", gap=1)
    drawn.show_header = headed
    for column, width in zip(drawn.columns, WIDTHS, strict=False):
        column.width = width
    for raw in page:
        job = value(raw)
        drawn.add_row(
            plain(job["id"]),
            status_text(job["status"]),
            str(job["attempt"]),
            span((clock.now() - milliseconds(job["created_at"])) / 1000),
            plain(job["type"]),
        )
    return drawn
