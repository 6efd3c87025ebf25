"""What is known of one setting, and the sections a setting can be in."""

from __future__ import annotations

from typing import Any

import msgspec

from jobqueued.config.kinds import Kind

POOL = "pools.NAME"
TYPE = "types.NAME"
DEFAULTS = "defaults"
EVERY_TYPE = (DEFAULTS, TYPE)

HANDLERS = ("command", "http", "python", "remote")
"""The kinds of handler, each named like the setting that chooses it."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting; `default` is written as in the file, `otherwise` says what holds without one.

    `handlers` are the kinds of handler it means something for.
    """

    sections: tuple[str, ...]
    name: str
    kind: Kind
    help: str
    default: Any = None
    otherwise: str = ""
    handlers: tuple[str, ...] = HANDLERS
    needs_restart: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The dotted keys under which it can be set: `defaults.timeout`, `types.NAME.timeout`."""
        return tuple(f"{section}.{self.name}" for section in self.sections)

    @property
    def first_key(self) -> str:
        """Its key in the section: `backoff` for `backoff.base`."""
        return self.name.split(".")[0]
