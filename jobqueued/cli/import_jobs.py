"""`jobqueued import`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from jobqueued.cli.bar import Bar, open_bar
from jobqueued.cli.errors import note
from jobqueued.cli.import_lines import LineReader
from jobqueued.cli.import_rejected import Rejected
from jobqueued.cli.import_send import UNDER_WAY, Importer, Tally
from jobqueued.cli.import_source import Source
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import many, plain
from jobqueued.client.chunks import BATCH
from jobqueued.client.link import Link

UNCHECKED = "not checked: idempotency keys that other jobs have, and room in the queue"
ANOTHER = (
    "jobs that are there stay as they are, cancelled or dead ones too; to submit lines once more,"
    "\ntake their idempotency_key out, and where they have none give the import another name"
    " with --name"
)
GO_ON = "run it again to go on: what is submitted already is not submitted twice"


@click.command(name="import")
@click.argument("source", metavar="FILE or -", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--type", "default_type", metavar="TYPE", help="For lines that have none.")
@click.option("--name", metavar="TEXT", help="Another name is another import; else the file's.")
@click.option(
    "--rejected",
    "wanted",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where rejected lines go; else beside FILE, as FILE.rejected.ndjson.",
)
@click.option("--dry-run", is_flag=True, help="Only check every line, and submit nothing.")
@json_option
@with_target
def import_jobs(
    target: Target,
    source: Path,
    default_type: str | None,
    name: str | None,
    wanted: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Submit the jobs of a file, one a line.

    FILE has one JSON object on each line; `-` is standard input. A line is what
    `submit` sends, such as {"type": "hello", "payload": {}}, or a job as `export`
    writes it: what only a daemon sets (id, status, attempt, …) is left out.

    A line without an idempotency_key gets one from what it says, how often the
    file has said it before, and the name of the import. So the same import run
    again, after Ctrl-C, a crash or an edit, adds only what is not there yet, as
    long as queue.idempotency_window lasts. One that `export` wrote may have a key
    already, and is then not submitted again to the daemon that has its job.

    Lines that are refused are kept in a file with the reasons; correct them there
    and import that. Exit 0 when all are in, 1 when some were rejected.
    """
    stem = Path("import") if str(source) == "-" else source
    rejected = Rejected(stem, wanted)
    with _opened(source) as descriptor, open_bar("check" if dry_run else "import") as bar:
        lines = Source(descriptor, BATCH)
        reader = LineReader(source.name if name is None else name, default_type)
        tally = _run(target, lines, reader, rejected, dry_run, bar)
    if as_json:
        kept = None if rejected.path is None else str(rejected.path)
        click.echo(json.dumps(_document(tally) | {"dry_run": dry_run, "rejected_file": kept}))
    else:
        click.echo(_told(tally, rejected, dry_run))
    if tally.there and not tally.fit:
        note(ANOTHER)
    if tally.rejected:
        raise click.exceptions.Exit(1)


def _run(
    target: Target, lines: Source, reader: LineReader, rejected: Rejected, dry_run: bool, bar: Bar
) -> Tally:
    addresses, key = target.daemon().addresses, os.environ.get("JOBQUEUED_KEY")
    tally = Tally()

    async def run() -> None:
        nonlocal tally
        link = Link(addresses, key, UNDER_WAY)
        told = _teller(bar, lines.size)
        importer = Importer(link, lines, reader, rejected, dry_run=dry_run, told=told)
        tally = importer.tally
        try:
            await importer.run()
        finally:
            await link.close()

    try:
        asyncio.run(run())
    except BaseException:
        if tally.lines:
            note(f"stopped after {_told(tally, rejected, dry_run)}\n{GO_ON}")
        raise
    finally:
        rejected.close()
    return tally


def _teller(bar: Bar, size: int | None) -> Callable[[Tally], None]:
    """Shows how far it is: on the bar, or in a line when something has to be waited for."""
    waited_for = ""

    def tell(tally: Tally) -> None:
        nonlocal waited_for
        waiting = f"waiting: {tally.waiting_for}" if tally.waiting_for else ""
        bar.update(tally.bytes, size, bar.counted(tally.lines, "lines", waiting))
        if waiting and not waited_for and not bar.is_shown:
            note(waiting)
        waited_for = waiting

    return tell


@contextmanager
def _opened(source: Path) -> Iterator[int]:
    if str(source) == "-":
        yield 0
        return
    with source.open("rb", buffering=0) as file:
        yield file.fileno()


def _document(tally: Tally) -> dict[str, object]:
    figures = dataclasses.asdict(tally)
    names = {"lines": "lines", "fit": "new", "there": "already_there", "rejected": "rejected"}
    return {told: figures[name] for name, told in names.items()}


def _told(tally: Tally, rejected: Rejected, dry_run: bool) -> str:
    fit = f"{tally.fit:,} {'without fault' if dry_run else 'new'}"
    there = f", {tally.there:,} already there" if tally.there else ""
    refused = f", {tally.rejected:,} rejected (see {rejected.path})" if tally.rejected else ""
    told = plain(f"{many(tally.lines, 'line')}: {fit}{there}{refused}")
    return f"{told}\n{UNCHECKED}" if dry_run else told
