"""Replaying all dead jobs of a type: count them, ask, and go through them call by call."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from jobqueued.cli.text import plain
from jobqueued.client.daemon import Daemon
from jobqueued.client.errors import Problem

MOST = 1000
"""Jobs a call may replay."""
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def pace(text: str) -> float:
    """Jobs per second, from `10/s`, `100/min`, `50/h` or `5/d`."""
    number, slash, unit = text.partition("/")
    try:
        amount = float(number) / UNITS[unit if slash else "s"]
    except (ValueError, KeyError):
        amount = 0.0
    if not 0 < amount <= 1_000_000:
        raise click.BadParameter(f"{text!r} is not a rate: write 10/s, 100/min, 50/h or 5/d")
    return amount


@dataclass
class Many:
    """What was asked for, and what came of it so far."""

    kind: str
    note: str | None
    yes: bool
    as_json: bool
    limit: int | None = None
    pace: float | None = None
    dry_run: bool = False
    ids: list[str] = field(default_factory=list)
    skipped: int = 0

    def jobs(self, count: int) -> str:
        """So many of them, in words."""
        return f"{count} dead job{'' if count == 1 else 's'} of type {plain(self.kind)}"

    def __str__(self) -> str:
        told = f"{self.jobs(len(self.ids))} replayed"
        if self.skipped:
            told += f"; {self.skipped} stay dead, newer jobs have their idempotency keys"
        return told


def replay_many(daemon: Daemon, asked: Many) -> None:
    """Replay dead jobs of a type, after a look at how many there are."""
    first = _ask(daemon, asked, 1, dry_run=True)
    count = min(first["dead"], asked.limit or first["dead"])
    if asked.dry_run or not count:
        _tell_count(asked, count)
        return
    _confirm(asked, count, first["confirm_needed"])
    try:
        with _progress_bar(count) as progress:
            _go_through(daemon, asked, count, progress)
    except Problem:
        # What was done before stays done.
        _tell(asked)
        raise
    _tell(asked)


def _go_through(daemon: Daemon, asked: Many, count: int, progress: Callable[[int], None]) -> None:
    """Never further than there were at first: what dies again stays dead."""
    began, cursor, left = time.monotonic(), None, count
    while left > 0:
        delay = 0.0
        if asked.pace is not None:
            delay = max(0.0, len(asked.ids) / asked.pace - (time.monotonic() - began))
        done = _ask(daemon, asked, min(left, MOST), cursor=cursor, delay_seconds=delay)
        asked.ids += done["ids"]
        asked.skipped += done["skipped"]
        left -= done["count"] + done["skipped"]
        progress(count - left)
        cursor = done["next_cursor"]
        if cursor is None:
            return


def _ask(daemon: Daemon, asked: Many, limit: int, **more: Any) -> dict[str, Any]:
    fields = {
        "type": asked.kind,
        "limit": limit,
        "note": asked.note,
        "pace_per_second": asked.pace,
        "confirm": True,
        **more,
    }
    answer: dict[str, Any] = daemon.post("/dlq/replay", json.dumps(fields).encode()).document()
    return answer


def _confirm(asked: Many, count: int, is_marked: bool) -> None:
    if asked.yes:
        return
    marked = ", which are replayed on purpose only" if is_marked else ""
    question = f"replay {asked.jobs(count)}{marked}?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say so with --yes, or look first with --dry-run")
    click.confirm(question, abort=True, err=True)


def _tell_count(asked: Many, count: int) -> None:
    if asked.as_json:
        click.echo(json.dumps({"type": asked.kind, "count": count, "dry_run": asked.dry_run}))
    elif count:
        click.echo(f"{asked.jobs(count)} would be replayed")
    else:
        click.echo(f"no dead jobs of type {plain(asked.kind)}", err=True)


def _tell(asked: Many) -> None:
    if asked.as_json:
        done = {"type": asked.kind, "count": len(asked.ids), "ids": asked.ids}
        click.echo(json.dumps(done | {"skipped": asked.skipped, "dry_run": False}))
    else:
        click.echo(str(asked))


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where somebody looks at it and it takes a while."""
    if total <= MOST or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("replay", total=total)
        yield lambda done: bars.update(bar, completed=done)
