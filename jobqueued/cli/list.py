"""`jobqueued list`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from jobqueued import clock
from jobqueued.cli.documents import value
from jobqueued.cli.filters import query_of, with_filters
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.pages import Pages
from jobqueued.cli.target import Target
from jobqueued.cli.text import distance, milliseconds, plain, span
from jobqueued.model.job import Status

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

SHORTEST_NOTE = len("in 59m 59s")


class Layout(NamedTuple):
    """The columns before type and note; with fixed widths pages line up below each other."""

    of: str
    headings: tuple[str, ...]
    widths: tuple[int, ...]
    cells: Callable[[dict[str, Any]], tuple[str | Text, ...]]


def with_extent(function: Callable[..., None]) -> Callable[..., None]:
    """How much of a list: `wanted` jobs, None for all, from `cursor` on."""

    @click.option("--limit", type=click.IntRange(1), help="How many (50), unless --all.")
    @click.option("--cursor", metavar="TEXT", help="Go on where an earlier list ended.")
    @click.option("--all", "everything", is_flag=True, help="All of them, page by page.")
    @wraps(function)
    def command(limit: int | None, everything: bool, **values: Any) -> None:
        if everything and limit is not None:
            raise click.UsageError("--all and --limit exclude each other")
        function(wanted=None if everything else limit or 50, **values)

    return command


@click.command(name="list")
@with_filters(Status)
@with_extent
@json_option
@with_target
def list_jobs(
    target: Target,
    statuses: tuple[str, ...],
    wanted: int | None,
    cursor: str | None,
    as_json: bool,
    **filters: str | None,
) -> None:
    """List jobs, newest first."""
    pages = Pages(target.daemon(), query_of(statuses, filters), wanted, cursor)
    print_pages(pages, JOBS, as_json)


def print_pages(pages: Pages, layout: Layout, as_json: bool) -> None:
    """Print jobs as they come."""
    if as_json:
        _print_json(pages)
    else:
        _print_table(pages, layout)


def _print_json(pages: Pages) -> None:
    """One document in the shape of the API, written as the pages come."""
    separator = b'{"jobs": ['
    for page in pages:
        for job in page:
            click.echo(separator + bytes(job), nl=False)
            separator = b",\n"
    start = separator if separator.startswith(b"{") else b""
    click.echo(start + b'], "next_cursor": ' + msgspec.json.encode(pages.cursor) + b"}")


def _print_table(pages: Pages, layout: Layout) -> None:
    from jobqueued.cli.screen import console, print_table

    screen, widths = console(), (0, 0)
    for page in pages:
        if page:
            jobs = [value(raw) for raw in page]
            headed = widths == (0, 0)
            if headed:
                widths = _last_widths(jobs, screen.width, layout)
            print_table(screen, _table(jobs, widths, headed, layout))
    if widths == (0, 0):
        click.echo(f"no {layout.of}", err=True)
    elif pages.cursor is not None:
        click.echo("there are more: --all lists them, --limit N some", err=True)


def _last_widths(jobs: list[dict[str, Any]], width: int, layout: Layout) -> tuple[int, int]:
    """Columns for the type and for the note of what the fixed ones leave; 0 leaves the note out."""
    left = width - sum(layout.widths) - len(layout.widths)
    kind = max(len("TYPE"), *(len(job["type"]) for job in jobs))
    note = left - kind - 1
    return (kind, note) if note >= SHORTEST_NOTE else (max(1, min(kind, left)), 0)


def _table(
    jobs: list[dict[str, Any]], last_widths: tuple[int, int], headed: bool, layout: Layout
) -> Table:
    from jobqueued.cli.screen import table

    drawn = table(*layout.headings, "TYPE", gap=1)
    drawn.show_header = headed
    for column, width in zip(drawn.columns, (*layout.widths, last_widths[0]), strict=True):
        column.width = width
    if last_widths[1]:
        drawn.add_column("NOTE", no_wrap=True, overflow="ellipsis", max_width=last_widths[1])
    for job in jobs:
        cells = (*layout.cells(job), plain(job["type"]), plain(note_on(job, clock.now())))
        drawn.add_row(*cells[: len(drawn.columns)])
    return drawn


def _cells(job: dict[str, Any]) -> tuple[str | Text, ...]:
    from jobqueued.cli.screen import status_text

    return (
        plain(job["id"]),
        status_text(job["status"]),
        str(job["attempt"]),
        since(job["created_at"]),
    )


JOBS = Layout("jobs", ("ID", "STATUS", "TRIES", "AGE"), (36, 10, 5, 8), _cells)


def since(moment: str) -> str:
    """How long ago a time is."""
    return span((clock.now() - milliseconds(moment)) / 1000)


def note_on(job: dict[str, Any], now: int) -> str:
    """What matters most about a job in its state: when it runs, how far it is, why it died."""
    status = job["status"]
    if status in ("scheduled", "retrying"):
        return distance(job["run_at"], now)
    if status == "processing" and job["progress"]:
        return f"{job['progress']['percent']:g} % {job['progress']['message'] or ''}".rstrip()
    if status == "dead":
        return ((job["last_error"] or "").strip().splitlines() or [""])[-1]
    return ""
