"""`jobqueued export`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from jobqueued.cli.bar import open_bar
from jobqueued.cli.filters import query_of, with_filters
from jobqueued.cli.options import with_target
from jobqueued.cli.pages import Pages
from jobqueued.cli.target import Target
from jobqueued.cli.text import many
from jobqueued.model.job import Status

_ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""In JSON a line break is only ever space between two tokens."""


@click.command()
@with_filters(Status)
@click.option("--limit", type=click.IntRange(1), help="The newest so many; left out, all.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to; it is replaced only when the export is complete. Else standard output.",
)
@with_target
def export(
    target: Target,
    statuses: tuple[str, ...],
    limit: int | None,
    output: Path | None,
    **filters: str | None,
) -> None:
    """Write jobs as NDJSON, one a line.

    The newest comes first; `tac FILE` turns that round. Each is the whole document
    of the API, with payloads as they were sent.

    `import` makes new jobs of such lines, whatever became of the old ones. But a
    line with an idempotency_key, which every job has that was imported once, stands
    for the job that has this key: the same daemon adds it only when
    queue.idempotency_window is over. To submit it there again, take the key out:

    \b
      jq -c 'del(.idempotency_key)' FILE | jobqueued import -
    """
    pages = Pages(target.daemon(), query_of(statuses, filters), limit, None)
    with _destination(output) as file, open_bar("export") as bar:
        number = 0
        for page in pages:
            file.write(b"".join(bytes(job).translate(_ON_ONE_LINE) + b"\n" for job in page))
            number += len(page)
            bar.update(number, limit, bar.counted(number, "jobs"))
    if output is not None or sys.stderr.isatty():
        click.echo(f"exported {many(number, 'job')}", err=True)
    if not number:
        pages.explain_nothing()


@contextmanager
def _destination(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that takes its name when all of it is there."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with _replacing(path.resolve()) as file:
            yield file


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    try:
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(descriptor, _mode_of(path))
            os.fsync(descriptor)
        os.rename(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def _mode_of(path: Path) -> int:
    """The mode of the file that is replaced, else that of any new file."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
