"""`jobqueued serve`."""

from __future__ import annotations

from pathlib import Path

import click

from jobqueued.cli.options import with_config


@click.command()
@with_config
def serve(config: Path | None) -> None:
    """Run the daemon until it is told to stop."""
    from jobqueued.config import find_config
    from jobqueued.daemon import run

    raise click.exceptions.Exit(run(find_config(config)))
