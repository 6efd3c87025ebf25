"""A bar for long work on standard error, where somebody looks at it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobqueued.cli.text import plain

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """How far the work is; without a terminal nobody is shown anything."""

    def __init__(self, progress: Progress | None, title: str) -> None:
        self._progress = progress
        self._began = time.monotonic()
        self._task = None if progress is None else progress.add_task(title, total=None, told="")

    @property
    def is_shown(self) -> bool:
        """Whether somebody sees it."""
        return self._progress is not None

    def update(self, done: int, total: int | None, told: str = "") -> None:
        """So much is done; `told` stands beside it."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, told=plain(told))

    def counted(self, number: int, unit: str, note: str = "") -> str:
        """A number with its rate since the start."""
        rate = number / max(time.monotonic() - self._began, 0.001)
        return f"{number:,} {unit} {rate:,.0f}/s {note}".rstrip()


@contextmanager
def open_bar(title: str) -> Iterator[Bar]:
    """A bar that is gone when the work is over."""
    if not sys.stderr.isatty():
        yield Bar(None, title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.table import Column

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeLeft(),
        TextColumn(
            "{task.fields[told]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, title)
