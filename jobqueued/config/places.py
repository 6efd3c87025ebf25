"""Where things are when nobody says: the configuration, the database, the socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jobqueued.model.errors import ConfigError

SYSTEM_CONFIG = Path("/etc/jobqueued/config.toml")
LOCAL_CONFIG = Path("jobqueued.toml")
CONFIG_VARIABLE = "JOBQUEUED_CONFIG"

SOCKET_NAME = "jobqueued.sock"
DATABASE_NAME = "jobs.db"


def find_config(option: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The file to load: `--config`, `$JOBQUEUED_CONFIG`, `./jobqueued.toml`, the system's."""
    if option is not None:
        return option
    if environment.get(CONFIG_VARIABLE):
        return Path(environment[CONFIG_VARIABLE])
    for candidate in (LOCAL_CONFIG, SYSTEM_CONFIG):
        if os.path.exists(candidate):
            return candidate
    raise ConfigError(
        f"no configuration found: there is no ./{LOCAL_CONFIG} and no {SYSTEM_CONFIG};"
        f" name one with --config or ${CONFIG_VARIABLE}, or write one with `jobqueued init`"
    )


def default_store_path(environment: Mapping[str, str] = os.environ) -> Path:
    """`$STATE_DIRECTORY/jobs.db`, else `jobqueued/jobs.db` in the XDG state directory."""
    given = _first_directory(environment.get("STATE_DIRECTORY"))
    if given is not None:
        return given / DATABASE_NAME
    state = environment.get("XDG_STATE_HOME", "")
    # The XDG rules say that a relative path there is to be ignored.
    home = Path(state) if os.path.isabs(state) else _home(environment) / ".local" / "state"
    return home / "jobqueued" / DATABASE_NAME


def default_socket_path(store_path: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """In `$RUNTIME_DIRECTORY`, else in `$XDG_RUNTIME_DIR`, else beside the database."""
    given = _first_directory(environment.get("RUNTIME_DIRECTORY"))
    if given is not None:
        return given / SOCKET_NAME
    session = environment.get("XDG_RUNTIME_DIR", "")
    directory = Path(session) if os.path.isabs(session) else store_path.absolute().parent
    return directory / SOCKET_NAME


def _first_directory(value: str | None) -> Path | None:
    """systemd gives a list when a unit has several directories; the first is the unit's own."""
    first = (value or "").split(":")[0]
    return Path(os.path.abspath(first)) if first else None


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("no home directory is known: set store.path in the configuration")
    return Path(home)
