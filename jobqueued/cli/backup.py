"""`jobqueued backup`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from jobqueued.cli.bar import open_bar
from jobqueued.cli.options import json_option, with_config
from jobqueued.cli.target import Target
from jobqueued.cli.text import plain, size


@click.command()
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@json_option
@with_config
def backup(config: Path | None, destination: Path, as_json: bool) -> None:
    """Copy the database to DEST and check the copy.

    A daemon may go on running meanwhile. DEST is a new file, or a directory.

    \b
    To restore a copy:
      1. stop the daemon
      2. move jobs.db, jobs.db-wal and jobs.db-shm away
      3. copy the backup to jobs.db, with the owner and the mode of the old one
      4. start the daemon; jobs that finished since the backup run again
    """
    from jobqueued.store.sqlite.offline import backup as copy

    source = Target(None, config).database()
    if destination.is_dir():
        destination /= source.name
    _check(destination)
    with open_bar("backup") as bar, _naming(destination):
        jobs = copy(source, destination, bar.update)
    written = destination.stat().st_size
    if as_json:
        click.echo(json.dumps({"path": str(destination), "bytes": written, "jobs": jobs}))
    else:
        click.echo(f"{plain(str(destination))}: {jobs} jobs, {size(written)}, checked")


def _check(destination: Path) -> None:
    if destination.exists():
        raise click.UsageError(f"{destination} is there already; a backup overwrites nothing")
    if not destination.parent.is_dir():
        raise click.UsageError(f"DEST is {destination}: there is no directory {destination.parent}")


@contextmanager
def _naming(destination: Path) -> Iterator[None]:
    """An error with the unfinished copy is one with the destination."""
    try:
        yield
    except OSError as error:
        named = Path(str(error.filename or ""))
        if named.parent == destination.parent and named.name.startswith(f".{destination.name}."):
            raise OSError(error.errno, error.strerror, str(destination)) from error
        raise
