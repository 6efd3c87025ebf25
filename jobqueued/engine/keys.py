"""Lines up the jobs of each key of the types that say how many of a key may run."""

from __future__ import annotations

import logging

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.part import Part
from jobqueued.engine.parts import Shared
from jobqueued.model.job_type import JobType
from jobqueued.store.interface import Key, Store

log = logging.getLogger("jobqueued.engine")


def out_of_line(config: Config, store: Store) -> set[str]:
    """The types that nobody may claim from, as their limit is not yet what the store keeps to."""
    return {
        name
        for name, job_type in config.types.items()
        if not store.is_lined_up(name, job_type.max_running_per_key)
    }


class Keys(Part):
    """Sleeps until a `max_running_per_key` is another than the one the jobs are lined up for."""

    name = "key limits"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared
        self._under_way: tuple[str, int | None] | None = None
        self._position: Key | None = None

    async def run_once(self) -> int | None:
        """A few jobs at a time, so that nobody waits for a long line."""
        config = self._shared.config
        for name in sorted(out_of_line(config, self._shared.store)):
            await self._go_on(config.types[name])
            return clock.now()
        return None

    async def _go_on(self, job_type: JobType) -> None:
        wanted = (job_type.name, job_type.max_running_per_key)
        start = self._position if self._under_way == wanted else None
        self._under_way = wanted
        self._position = await self._shared.store.line_up(*wanted, start)
        if self._position is None:
            most = "any number" if wanted[1] is None else f"at most {wanted[1]}"
            log.info("type %s: its jobs are lined up anew, %s of a key may run", wanted[0], most)
            self._shared.dispatcher.wake()
