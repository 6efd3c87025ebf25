"""How errors are told on standard error."""

from __future__ import annotations

import click

from jobqueued.cli.text import coloured, plain
from jobqueued.client.errors import NotConnected, Problem

START_ONE = "start one with `jobqueued serve`, or name another with --url"


def describe(error: Exception) -> None:
    """Print `error: …` and, on further lines, everything else that is known to help."""
    _print("error:", "red", "\n".join([*_words(error), *_help(error)]))


def note(text: str) -> None:
    """Print `note: …` beside an answer."""
    _print("note:", "yellow", text)


def _print(head: str, colour: str, text: str) -> None:
    first, *others = text.splitlines()
    click.echo(f"{coloured(head, colour)} {plain(first)}", err=True)
    for line in others:
        click.echo(f"  {plain(line)}", err=True)


def _words(error: Exception) -> list[str]:
    if isinstance(error, OSError) and error.strerror:
        named = "" if error.filename is None else f"{error.filename}: "
        return [f"{named}{error.strerror}"]
    # The detail of a problem repeats the first of its faults.
    if isinstance(error, Problem) and error.errors:
        return [f"{fault.field}: {fault.message}" for fault in error.errors]
    return [str(error) or type(error).__name__]


def _help(error: Exception) -> list[str]:
    if isinstance(error, NotConnected):
        return [START_ONE]
    if isinstance(error, Problem) and error.retry_after:
        return [f"try again in {error.retry_after} s"]
    return []
