"""Tables for people: never wider than the terminal, coloured only on one."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobqueued.cli.text import plain, wants_colour

UNLIMITED = 100_000
"""Columns when the output is not a terminal: nothing is wrapped or cut for a program."""

COLOURS = {
    "scheduled": "blue",
    "pending": "cyan",
    "processing": "yellow",
    "retrying": "magenta",
    "completed": "green",
    "dead": "red",
    "discarded": "red",
    "cancelled": "bright_black",
    "expired": "bright_black",
}


def console() -> Console:
    """Where tables are drawn."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else UNLIMITED
    return Console(
        width=width,
        force_terminal=terminal and wants_colour(),
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_table(screen: Console, drawn: Table) -> None:
    """Print a table; for programs without the spaces that only fill the last column."""
    if screen.width != UNLIMITED:
        screen.print(drawn)
        return
    with screen.capture() as capture:
        screen.print(drawn)
    for line in capture.get().splitlines():
        print(line.rstrip(), file=screen.file)


def table(*headings: str, gap: int = 2) -> Table:
    """A table without lines; what does not fit into a column is cut."""
    empty = Table(box=None, padding=(0, gap, 0, 0), header_style="bold", pad_edge=False)
    for heading in headings:
        empty.add_column(heading, no_wrap=True, overflow="ellipsis")
    return empty


def table_of_names(*headings: str, gap: int = 2) -> Table:
    """A table whose first column is of names, which go on below where they leave no room."""
    drawn = table(*headings, gap=gap)
    drawn.columns[0].no_wrap, drawn.columns[0].overflow = False, "fold"
    return drawn


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(plain(status), style=COLOURS.get(status, ""))
