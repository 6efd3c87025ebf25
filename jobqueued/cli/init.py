"""`jobqueued init`."""

from __future__ import annotations

from pathlib import Path

import click

import jobqueued

EXAMPLE = "config.example.toml"


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("jobqueued.toml"))
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def init(path: Path, force: bool) -> None:
    """Write a commented configuration to start from."""
    if path.is_dir():
        path /= "jobqueued.toml"
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(example_config())
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; --force overwrites it") from None
    click.echo(f"wrote {path}; next: jobqueued serve --config {path}")


def example_config() -> str:
    """The starter configuration: beside the package in a checkout, within it when installed."""
    package = Path(jobqueued.__file__).parent
    installed = package / EXAMPLE
    source = installed if installed.exists() else package.parent / EXAMPLE
    return source.read_text(encoding="utf-8")
