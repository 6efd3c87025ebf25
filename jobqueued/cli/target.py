"""What a command is about: a daemon, and the database behind it when that is down."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobqueued.client.address import addresses
from jobqueued.client.daemon import Daemon
from jobqueued.model.errors import ConfigError

if TYPE_CHECKING:
    from jobqueued.config import Config

LOOPBACK_PORT = "127.0.0.1:5627"

# Where the systemd unit puts them; a login shell has no $RUNTIME_DIRECTORY to tell.
SYSTEM_SOCKET = "unix:/run/jobqueued/jobqueued.sock"
SYSTEM_DATABASE = Path("/var/lib/jobqueued/jobs.db")


class Target(NamedTuple):
    """The daemon that `--url` or `--config` mean, or the one that is found without them."""

    url: str | None
    config: Path | None

    def daemon(self) -> Daemon:
        """A daemon to ask; nothing is sent yet."""
        told = self.url or os.environ.get("JOBQUEUED_URL")
        listen = [] if told else self._listen()
        return Daemon(addresses(self.url, os.environ, listen), os.environ.get("JOBQUEUED_KEY"))

    def configuration(self) -> Config | None:
        """The configuration in use here, or None where there is none."""
        from jobqueued.config import find_config, load_config

        try:
            path = find_config(self.config)
        except ConfigError:
            return None
        return load_config(path)

    def database(self) -> Path:
        """The database file of the configuration, else the one in its default place."""
        from jobqueued.config import default_store_path

        config = self.configuration()
        path = config.store.path if config else default_store_path()
        if _is_system_wide(config) and not path.exists() and SYSTEM_DATABASE.exists():
            return SYSTEM_DATABASE
        return path

    def _listen(self) -> list[str]:
        config = None
        if self.config is not None:
            config = self.configuration()
        else:
            # A file that is being edited must not keep anybody from the daemon that runs.
            with suppress(ConfigError):
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
