"""`jobqueued serve`."""

from __future__ import annotations

from pathlib import Path

import click

from jobqueued.cli.options import with_config


@click.command()
@with_config
def serve(config: Path | None) -> None:
    """Run the daemon until it is told to stop.

    \b
    The configuration is the first of these that there is:
      --config FILE, $JOBQUEUED_CONFIG, ./jobqueued.toml,
      /etc/jobqueued/config.toml

    \b
    Signals:
      SIGTERM, SIGINT  stop: running jobs may finish (Ctrl-C sends SIGINT)
      ... once more    do not wait: stop them now, and at the third time kill them
      SIGHUP           read the configuration again
    """
    from jobqueued.config import find_config
    from jobqueued.daemon import run

    raise click.exceptions.Exit(run(find_config(config)))
