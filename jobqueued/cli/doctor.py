"""`jobqueued doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobqueued.cli.findings import Finding, caution, fault, fine
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.surroundings import clock_sanity, descriptors, directory, versions
from jobqueued.cli.target import Target
from jobqueued.cli.text import coloured, plain, span
from jobqueued.client.daemon import Daemon
from jobqueued.client.errors import ClientError, Problem, Unreachable
from jobqueued.model.errors import ConfigError, DamagedDatabase, StoreError

if TYPE_CHECKING:
    from jobqueued.config import Config

RESTORE = "keep the file, and start from the last backup (see `jobqueued backup`)"
COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}


@click.command()
@json_option
@with_target
def doctor(target: Target, as_json: bool) -> None:
    """Check the surroundings and say what to do about what is wrong."""
    findings = []
    for finding in examine(target):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        click.echo(json.dumps({"findings": [_document(each) for each in findings]}))
    # The larger code is the graver one: 65 is a damaged database, 1 any other fault.
    raise click.exceptions.Exit(max(each.exit_code for each in findings))


def examine(target: Target) -> Iterator[Finding]:
    """Every check, from the machine to the daemon."""
    from jobqueued.store.sqlite.files import lock_holder

    yield from versions()
    yield descriptors()
    holder = None
    try:
        config = target.configuration()
    except ConfigError as error:
        for line in str(error).splitlines():
            yield fault("configuration", plain(line), "correct it")
    else:
        yield from _configuration(config)
        database = target.database()
        yield from _database(database)
        holder = lock_holder(database)
    yield _daemon(target, holder)


def _configuration(config: Config | None) -> Iterator[Finding]:
    from jobqueued.config import warnings

    if config is None:
        fix = "write one: `jobqueued init`"
        yield caution("configuration", "there is none; looking in the default places", fix)
        return
    yield fine("configuration", f"{plain(str(config.files[0]))}: {len(config.types)} types")
    for warning in warnings(config):
        yield caution("configuration", plain(warning), "correct it, unless it is meant")


def _database(path: Path) -> Iterator[Finding]:
    yield from directory(path)
    yield clock_sanity(path)
    if path.exists():
        yield from _contents(path)
    else:
        yield fine("database", f"{plain(str(path))} will be made by the first start")


def _contents(path: Path) -> Iterator[Finding]:
    from jobqueued.store.sqlite.migrate import check_before_opening, shipped_migrations
    from jobqueued.store.sqlite.offline import check

    newest = len(shipped_migrations())
    try:
        version = check_before_opening(path, newest)
        damages = check(path)
    except DamagedDatabase as error:
        yield fault("database", plain(str(error)), RESTORE, error.exit_code)
        return
    except StoreError as error:
        yield fault("database", plain(str(error)), "see whether the disk is sound")
        return
    for damage in damages:
        yield fault("database", plain(damage), RESTORE, DamagedDatabase.exit_code)
    if not damages:
        yield fine("database", f"{plain(str(path))} is sound")
    change = "" if version == newest else f", brought to {newest} by the next start"
    yield fine("schema", f"version {version}{change}")


def _daemon(target: Target, holder: int | None) -> Finding:
    try:
        daemon = target.daemon()
    except ConfigError:
        if target.config_is_named:
            text = "not asked, as a faulty configuration does not say where it is"
            return caution("daemon", text, "name it with --url")
        daemon = target.some_daemon()
    return _answer(daemon, holder)


def _answer(daemon: Daemon, holder: int | None) -> Finding:
    try:
        stats = daemon.get("/stats").document()
    except Unreachable as error:
        return _silence(error, holder)
    except Problem as error:
        return caution("daemon", plain(str(error)), "set $JOBQUEUED_KEY, or ask on its socket")
    except ClientError as error:
        return fault("daemon", plain(str(error)), "name the right address with --url")
    if not stats["ready"]:
        reasons = plain("; ".join(stats["reasons"]))
        return fault("daemon", f"it is not ready: {reasons}", "see its log")
    return fine("daemon", f"{daemon.addresses[0]} is ready, up {span(stats['uptime_seconds'])}")


def _silence(error: Unreachable, holder: int | None) -> Finding:
    if holder is None:
        return caution("daemon", plain(str(error)), "start it: `jobqueued serve`")
    fix = f"see its log; where it hangs, stop it with `kill {holder}`"
    return fault("daemon", plain(f"process {holder} holds the database, but {error}"), fix)


def _print(finding: Finding) -> None:
    level = coloured(f"{finding.level:8}", COLOURS[finding.level])
    click.echo(f"{level} {finding.subject}: {finding.text}")
    if finding.fix:
        click.echo(f"{'':8}   fix: {finding.fix}")


def _document(finding: Finding) -> dict[str, str]:
    return {
        "level": finding.level,
        "subject": finding.subject,
        "text": finding.text,
        "fix": finding.fix,
    }
