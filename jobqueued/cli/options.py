"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from jobqueued.cli.target import Target
from jobqueued.client.errors import Problem

Command = Callable[..., None]

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration file, where it is not found by itself.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
url_option = click.option(
    "--url",
    metavar="URL",
    help="Address of the daemon: http://HOST:PORT or unix:/PATH [env: JOBQUEUED_URL].",
)


def with_config(function: Command) -> Command:
    """Add --config; the command gets it wherever on the line it was given."""

    @config_option
    @wraps(function)
    def command(config: Path | None, **values: object) -> None:
        function(config=config or _given("config"), **values)

    return command


def with_target(function: Command) -> Command:
    """Add --url and --config; the command gets both as the `target` it is about."""

    @url_option
    @config_option
    @wraps(function)
    def command(url: str | None, config: Path | None, **values: object) -> None:
        target = Target(url or _given("url"), config or _given("config"))
        try:
            function(target=target, **values)
        except Problem as problem:
            raise problem.renamed(_option_names()) from problem

    return command


def seconds(text: str) -> float:
    """Seconds as a plain number, or a duration such as `5m`."""
    amount = read_seconds(text)
    if amount is None:
        raise click.BadParameter(f"{text!r} is not a duration: write 90s, 5m or 24h")
    return amount


def read_seconds(text: str) -> float | None:
    """The seconds a text stands for, or None where it is no duration."""
    from jobqueued.config import parse_duration

    try:
        return parse_duration(text if text[-1:].isalpha() else f"{text}s") / 1000
    except ValueError:
        return None


def check_ids(
    ctx: click.Context, param: click.Parameter, value: str | tuple[str, ...] | None
) -> object:
    """Refuse an empty id, as a script with an unset variable sends it."""
    if "" in ((value,) if isinstance(value, str) else value or ()):
        raise click.BadParameter("a job id cannot be empty", ctx, param)
    return value


def _option_names() -> dict[str, str]:
    """The options of the command by the field of the API that each sets."""
    options = click.get_current_context().command.params
    return {each.name: each.opts[-1] for each in options if each.name and each.opts[0][:1] == "-"}


def _given(name: str) -> Any:
    """The option as it was given before the name of the command."""
    return click.get_current_context().find_root().params.get(name)
