"""Reading the files: the configuration and `conf.d/*.toml` beside it, merged into one tree."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from jobqueued.config.faults import Faults, Keys, shown_path

DROP_IN_DIRECTORY = "conf.d"

DEEPEST = 5
"""Levels that are merged, as in `types.NAME.http.headers.Accept`; what is deeper is one value."""


class Tree:
    """The tables of all files as one, and which file each key came from."""

    def __init__(self, main: Path) -> None:
        self.main = main
        self.table: dict[str, Any] = {}
        self.files: list[Path] = []
        self.complete = True
        self._origins: dict[Keys, Path] = {}

    def origin(self, keys: Keys) -> Path:
        """The file that set a key, or the nearest table around it."""
        while keys and keys not in self._origins:
            keys = keys[:-1]
        return self._origins.get(keys, self.main)

    def merge(self, file: Path, table: dict[str, Any], faults: Faults) -> None:
        """Add the tables of one more file; the same value in two files is a fault."""
        self.files.append(file)
        self._merge_into(self.table, table, (), file, faults)

    def _merge_into(
        self,
        target: dict[str, Any],
        source: dict[str, Any],
        above: Keys,
        file: Path,
        faults: Faults,
    ) -> None:
        for key, value in source.items():
            keys = (*above, key)
            is_table = isinstance(value, dict) and len(keys) < DEEPEST
            if key not in target:
                self._origins[keys] = file
                target[key] = {} if is_table else value
            if is_table and isinstance(target[key], dict):
                self._merge_into(target[key], value, keys, file, faults)
            elif self._origins[keys] is not file:
                other = shown_path(self._origins[keys])
                faults.add_key(file, keys, f"is set in {other} too: keep one of them")


def read_files(path: Path, faults: Faults) -> Tree:
    """Read the configuration and what lies beside it; `complete` tells whether all was readable."""
    tree = Tree(path)
    for file in [path, *_drop_ins(tree, faults)]:
        table = _read_toml(file, faults)
        if table is None:
            tree.complete = False
        else:
            tree.merge(file, table, faults)
    return tree


def _drop_ins(tree: Tree, faults: Faults) -> list[Path]:
    directory = tree.main.parent / DROP_IN_DIRECTORY
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        faults.add(directory, f"cannot be read: {error.strerror}")
        tree.complete = False
        return []
    return [
        directory / name for name in names if name.endswith(".toml") and not name.startswith(".")
    ]


def _read_toml(file: Path, faults: Faults) -> dict[str, Any] | None:
    try:
        return tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        faults.add(file, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        faults.add(file, f"is not UTF-8 text (byte {error.start})")
    # Absurd input makes the parser raise a plain ValueError or run out of stack.
    except (ValueError, RecursionError) as error:
        faults.add(file, f"is not valid TOML: {error}")
    return None
