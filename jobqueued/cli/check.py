"""`jobqueued check`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from jobqueued.cli.options import json_option, with_config
from jobqueued.cli.text import coloured, plain
from jobqueued.config import Config, find_config, load_config, warnings
from jobqueued.model.errors import ConfigError


@click.command()
@with_config
@json_option
def check(config: Path | None, as_json: bool) -> None:
    """Check the configuration; lists every fault at once."""
    try:
        loaded = load_config(find_config(config))
    except ConfigError as error:
        _report(str(error).splitlines(), [], None, as_json)
        raise click.exceptions.Exit(error.exit_code) from error
    _report([], warnings(loaded), loaded, as_json)


def _report(faults: list[str], cautions: list[str], config: Config | None, as_json: bool) -> None:
    if as_json:
        document = {"valid": not faults, "faults": faults, "warnings": cautions}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for fault in faults:
        click.echo(f"{coloured('error:', 'red')} {plain(fault)}", err=True)
    for caution in cautions:
        click.echo(f"{coloured('warning:', 'yellow')} {plain(caution)}", err=True)
    if config is not None:
        click.echo(f"configuration is valid: {_contents(config)}")


def _contents(config: Config) -> str:
    counts = ((len(config.types), "type"), (len(config.pools), "pool"), (len(config.files), "file"))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
