"""Answers from the database file while no daemon runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from jobqueued.cli.target import Target
from jobqueued.cli.text import coloured, plain
from jobqueued.client.daemon import Daemon
from jobqueued.client.errors import Unreachable


def or_from_file(
    target: Target, ask: Callable[[Daemon], bytes], read: Callable[[Path], bytes]
) -> tuple[bytes, Path | None]:
    """What the daemon says; when it is down, what its file says, and which file that was."""
    daemon = target.daemon()
    try:
        return ask(daemon), None
    except Unreachable as unreachable:
        if not daemon.is_local:
            raise
        database = target.database()
        try:
            return read(database), database
        except FileNotFoundError:
            raise Unreachable(f"{unreachable}, and there is no database {database}") from None


def note_offline(database: Path) -> None:
    """Say that the answer is not from a daemon."""
    note = f"no daemon is running; this is from {plain(str(database))}, read only"
    click.echo(f"{coloured('note:', 'yellow')} {note}", err=True)
