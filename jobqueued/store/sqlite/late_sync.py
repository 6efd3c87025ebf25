"""Syncing the log a moment after it was written, where commits do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from jobqueued.model.errors import StoreError, StoreUnavailable
from jobqueued.store.sqlite.connection import Connection
from jobqueued.store.sqlite.files import sync_file

WITHIN_SECONDS = 1.0


class LateSync:
    """A power cut costs no more than what was written within the last second or so."""

    def __init__(self, connection: Connection, log: Path, fail: Callable[[StoreError], None]):
        self._connection = connection
        self._log = log
        self._fail = fail
        self._task: asyncio.Task[None] | None = None

    def written(self) -> None:
        """Something was, and is not synced yet."""
        if self._task is None:
            self._task = asyncio.create_task(self._sync(), name="late sync")

    async def close(self) -> None:
        """Closing the database syncs everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _sync(self) -> None:
        await asyncio.sleep(WITHIN_SECONDS)
        self._task = None
        try:
            # The log carries no locks, so that it may be opened and closed beside SQLite.
            await self._connection.run(lambda _: sync_file(self._log))
        except FileNotFoundError:
            pass
        except OSError as error:
            self._fail(StoreUnavailable(f"{self._log} cannot be synced: {error.strerror}"))
