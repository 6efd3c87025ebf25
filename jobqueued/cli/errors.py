"""How errors are told on standard error."""

from __future__ import annotations

import click

from jobqueued.cli.text import coloured, plain
from jobqueued.client.errors import Problem


def describe(error: Exception) -> None:
    """Print `error: …`, with the faulty fields and when to try again where they are known."""
    first, *others = _words(error).splitlines() or [type(error).__name__]
    click.echo(f"{coloured('error:', 'red')} {plain(first)}", err=True)
    for line in others:
        click.echo(f"  {plain(line)}", err=True)
    if isinstance(error, Problem):
        _describe_problem(error)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _describe_problem(problem: Problem) -> None:
    for fault in problem.errors:
        click.echo(f"  {plain(fault.field)}: {plain(fault.message)}", err=True)
    if problem.retry_after:
        click.echo(f"  try again in {plain(problem.retry_after)} s", err=True)
