"""Everything there is to say about configuration files, valid or not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobqueued.config.faults import Faults
from jobqueued.config.files import read_files
from jobqueued.config.load import valid_part
from jobqueued.config.settings import Config
from jobqueued.config.warn import doubts


class Examined(NamedTuple):
    """The files that were read, what is wrong and what is doubtful, each with its file."""

    files: tuple[Path, ...]
    faults: list[str]
    warnings: list[str]
    config: Config | None
    """What is valid in the files; None where that is too little."""


def examine_config(path: Path, environment: Mapping[str, str] = os.environ) -> Examined:
    """Look at the configuration without taking anything amiss."""
    faults, cautions = Faults(), Faults()
    tree = read_files(path, faults)
    # Who checks may be another user than the daemon, and has not its credentials.
    config = valid_part(tree, faults, environment, unreadable=cautions)
    for keys, text in doubts(config) if config else ():
        cautions.add_key(tree.origin(keys), keys, text)
    return Examined(tuple(tree.files), faults.lines, cautions.lines, config)
