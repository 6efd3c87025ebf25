"""Tables for people: never wider than the terminal, coloured only on one."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobqueued.cli.text import plain, wants_colour

NARROW = 80
"""Columns when the output is not a terminal."""

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
    width = shutil.get_terminal_size().columns if terminal else NARROW
    return Console(
        width=width, force_terminal=terminal and wants_colour(), highlight=False, markup=False
    )


def table(*headings: str, gap: int = 2) -> Table:
    """A table without lines; what does not fit into a column is cut."""
    empty = Table(box=None, padding=(0, gap, 0, 0), header_style="bold", pad_edge=False)
    for heading in headings:
        empty.add_column(heading, no_wrap=True, overflow="ellipsis")
    return empty


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(plain(status), style=COLOURS.get(status, ""))
