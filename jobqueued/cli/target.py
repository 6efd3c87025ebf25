"""What a command is about: a daemon, and the database behind it when that is down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobqueued.client.address import addresses
from jobqueued.client.daemon import Daemon
from jobqueued.model.errors import ConfigError

if TYPE_CHECKING:
    from jobqueued.config import Config

WAY_OUT = "correct it (`jobqueued check`), or name the daemon with --url"
LOOPBACK_PORT = "127.0.0.1:5627"

# Where the systemd unit puts them; a login shell has no $RUNTIME_DIRECTORY to tell.
SYSTEM_SOCKET = "unix:/run/jobqueued/jobqueued.sock"
SYSTEM_DATABASE = Path("/var/lib/jobqueued/jobs.db")


class Target(NamedTuple):
    """The daemon that `--url` or `--config` mean, or the one that is found without them."""

    url: str | None
    config: Path | None

    @property
    def is_named(self) -> bool:
        """Whether one daemon and no other is meant, by `--url` or `$JOBQUEUED_URL`."""
        return bool(self.url or os.environ.get("JOBQUEUED_URL"))

    @property
    def config_is_named(self) -> bool:
        """Whether one configuration and no other is meant."""
        from jobqueued.config.places import CONFIG_VARIABLE

        return self.config is not None or bool(os.environ.get(CONFIG_VARIABLE))

    def daemon(self) -> Daemon:
        """A daemon to ask; nothing is sent yet."""
        try:
            return self._daemon_at([] if self.is_named else self._places())
        except ConfigError as error:
            # In the default places there may be another daemon than the one that is meant.
            raise ConfigError(f"{error}\n{WAY_OUT}") from error

    def some_daemon(self) -> Daemon:
        """Whoever is in the default places; good enough to read from while a file is faulty."""
        return self._daemon_at([*_default_places(), SYSTEM_SOCKET])

    def configuration(self) -> Config | None:
        """The configuration in use here, or None where there is none."""
        from jobqueued.config import find_config, load_config

        try:
            path = find_config(self.config)
        except ConfigError:
            return None
        return load_config(path, with_secrets=False)

    def database(self) -> Path:
        """The database file of the configuration, else the one in its default place."""
        from jobqueued.config import default_store_path

        config = self.configuration()
        path = config.store.path if config else default_store_path()
        if _is_system_wide(config) and not path.exists() and SYSTEM_DATABASE.exists():
            return SYSTEM_DATABASE
        return path

    def _daemon_at(self, places: list[str]) -> Daemon:
        return Daemon(addresses(self.url, os.environ, places), os.environ.get("JOBQUEUED_KEY"))

    def _places(self) -> list[str]:
        config = self.configuration()
        places = list(config.server.listen) if config else _default_places()
        known = [place for place in places if not place.endswith(":0")]
        return [*known, SYSTEM_SOCKET] if _is_system_wide(config) else known


def _default_places() -> list[str]:
    from jobqueued.config import default_socket_path, default_store_path

    return [f"unix:{default_socket_path(default_store_path())}", LOOPBACK_PORT]


def _is_system_wide(config: Config | None) -> bool:
    from jobqueued.config.places import SYSTEM_CONFIG

    return config is None or SYSTEM_CONFIG in config.files
