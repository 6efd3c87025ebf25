"""The file that keeps the lines an import could not submit, with the reasons."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import BinaryIO

import click

from jobqueued.cli.import_lines import rejection
from jobqueued.cli.import_source import Piece


class Rejected:
    """Made when the first line is rejected; never in place of a file that is there."""

    def __init__(self, source: Path, wanted: Path | None) -> None:
        if wanted is not None and wanted.exists():
            raise click.UsageError(f"{wanted} is there already; name another file with --rejected")
        self._source = source
        self._wanted = wanted
        self._file: BinaryIO | None = None
        self.path: Path | None = None

    def write(self, piece: Piece, reasons: list[str]) -> None:
        """Keep one line."""
        if self._file is None:
            self._file = self._open()
        self._file.write(rejection(piece, reasons) + b"\n")

    def flush(self) -> None:
        """Leave nothing to memory alone."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """It is complete."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> BinaryIO:
        for number in itertools.count(1):
            self.path = self._wanted or self._numbered(number)
            try:
                return self.path.open("xb")
            except FileExistsError:
                if self._wanted is not None:
                    raise
        raise AssertionError

    def _numbered(self, number: int) -> Path:
        mark = "" if number == 1 else f"-{number}"
        return self._source.with_name(f"{self._source.name}.rejected{mark}.ndjson")
