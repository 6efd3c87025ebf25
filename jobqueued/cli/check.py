"""`jobqueued check`."""

from __future__ import annotations

from pathlib import Path

import click

from jobqueued.cli.documents import join
from jobqueued.cli.options import json_option, with_config
from jobqueued.cli.text import coloured, plain
from jobqueued.config import Config, Examined, examine_config, find_config
from jobqueued.model.errors import ConfigError


@click.command()
@click.argument("file", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@with_config
@json_option
def check(config: Path | None, file: Path | None, as_json: bool) -> None:
    """Check the configuration; lists every fault at once.

    Without FILE it is the configuration that `jobqueued serve` would read here.
    """
    if file is not None and config is not None:
        raise click.UsageError("FILE and --config exclude each other")
    try:
        found = examine_config(find_config(file or config))
    except ConfigError as error:
        found = Examined((), [str(error)], [], None)
    _report(found, as_json)
    if found.faults:
        raise click.exceptions.Exit(ConfigError.exit_code)


def _report(found: Examined, as_json: bool) -> None:
    if as_json:
        told = {"valid": not found.faults, "files": [str(file) for file in found.files]}
        click.echo(join({**told, "faults": found.faults, "warnings": found.warnings}))
        return
    for fault in found.faults:
        click.echo(f"{coloured('error:', 'red')} {plain(fault)}", err=True)
    for caution in found.warnings:
        click.echo(f"{coloured('warning:', 'yellow')} {plain(caution)}", err=True)
    if found.config is not None and not found.faults:
        files = ", ".join(plain(str(file)) for file in found.files)
        click.echo(f"configuration is valid: {files}: {_contents(found.config)}")


def _contents(config: Config) -> str:
    counts = ((len(config.types), "type"), (len(config.pools), "pool"))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
