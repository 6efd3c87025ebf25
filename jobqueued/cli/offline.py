"""Answers from the database file while no daemon answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobqueued.cli.errors import note
from jobqueued.cli.target import Target
from jobqueued.cli.text import plain
from jobqueued.client.daemon import Daemon
from jobqueued.client.errors import Unreachable
from jobqueued.model.errors import ConfigError


class Offline(NamedTuple):
    """Why an answer is from a file; `holder` is the daemon that has it but does not answer."""

    database: Path
    reason: str
    holder: int | None

    def tell(self) -> None:
        """Say that the answer is not from a daemon."""
        why = "no daemon is running"
        if self.holder is not None:
            why = f"process {self.holder} holds the database, but {self.reason}"
        note(f"{why}; this is from {plain(str(self.database))}, read only")


def or_from_file(
    target: Target, ask: Callable[[Daemon], bytes], read: Callable[[Path], bytes]
) -> tuple[bytes, Offline | None]:
    """What the daemon says; when none was named and none answers, what the file says."""
    daemon = _daemon_to_look_at(target)
    try:
        return ask(daemon), None
    except Unreachable as unreachable:
        # A named daemon may be on another machine; only without a name the file is its own.
        if target.is_named:
            raise
        return _from_file(_database(target, unreachable), read, unreachable)


def _daemon_to_look_at(target: Target) -> Daemon:
    try:
        return target.daemon()
    except ConfigError as error:
        if target.config_is_named:
            raise
        note(f"{error}\nlooking in the default places meanwhile")
        return target.some_daemon()


def _database(target: Target, unreachable: Unreachable) -> Path:
    try:
        return target.database()
    except ConfigError:
        unknown = "and a faulty configuration does not say where the database is"
        raise ConfigError(f"{unreachable}, {unknown}") from None


def _from_file(
    database: Path, read: Callable[[Path], bytes], unreachable: Unreachable
) -> tuple[bytes, Offline]:
    from jobqueued.store.sqlite.files import lock_holder

    try:
        return read(database), Offline(database, str(unreachable), lock_holder(database))
    except FileNotFoundError:
        nothing = f"{unreachable}, and there is no database {database}"
        raise type(unreachable)(nothing) from None
