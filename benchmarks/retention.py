"""How long submissions take while a million old jobs are deleted, and how fast those go."""

from __future__ import annotations

import signal
import time
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.load import Measured, drive
from benchmarks.rows import Rows, fill
from benchmarks.submit import plan_for
from benchmarks.support import PATIENCE, Daemon, Figure, Required, fresh_place, say, until

OLD = 1_000_000
CONNECTIONS = (1, 8, 64)
ROUNDS = 3
SECONDS = 2.0
DAY = 86_400
AGE_DAYS = 8

Measurements = dict[int, list[Measured]]


class Deleting(Daemon):
    """A daemon full of old jobs that is told to keep them, or not to."""

    def __init__(self, place: Path) -> None:
        self._retention = place / "conf.d" / "retention.toml"
        self._retention.parent.mkdir()
        self._write(9 * AGE_DAYS)
        super().__init__(place)

    def keep(self, days: int) -> None:
        """Have it keep finished jobs for so long from now on."""
        self._write(days)
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self._kept()["keep_seconds"] == days * DAY)

    def _write(self, days: int) -> None:
        self._retention.write_text(f'[retention]\ncompleted = "{days}d"\n')

    def left(self) -> int:
        """How many old jobs there are."""
        jobs: int = self._kept()["jobs"]
        return jobs

    def _kept(self) -> dict[str, int]:
        kept: dict[str, int] = self.store()["retention"]["outcomes"]["completed"]
        return kept

    def store(self) -> dict[str, object]:
        """What it says of its file."""
        store: dict[str, object] = self.ask("GET", "/stats")["store"]
        return store
