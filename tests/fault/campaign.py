"""A campaign: a daemon under load, faults, the load's end, and what the checker finds."""

from __future__ import annotations

import asyncio
import random
import secrets
from pathlib import Path
from types import TracebackType

from tests.api.support import until
from tests.fault.checker import Report, check
from tests.fault.clients import NO_ANSWER, Client, Clients
from tests.fault.daemon import CONFIG, Companion, FaultDaemon, talk
from tests.fault.executions import prepare_notes
from tests.fault.history import History, Injected, Moment

DRAIN_SECONDS = 45.0
UNFINISHED = ("scheduled", "pending", "processing", "retrying")


class Campaign:
    """Everything one run needs; faults get it and do their worst.

    Use as a context manager: `start`, inject faults, `finish`.
    """

    def __init__(
        self,
        place: Path,
        *,
        seed: str | None = None,
        config: str = CONFIG,
        clients: int = 4,
        pause: float = 0.06,
        workers: int = 1,
    ) -> None:
        self.place = place
        self.seed = seed or secrets.token_hex(4)
        self.chance = random.Random(self.seed)
        self.history = History()
        prepare_notes(place)
        self.daemon = FaultDaemon(place, self.history, config)
        self.clients = Clients(self.daemon, self.seed, clients, pause)
        self.client = Client("fault", self.daemon, self.seed, pause)
        """For jobs that a fault needs."""
        self._worker_count = workers
        self.workers: list[Companion] = []
        self.remote_types = ["remote"]
        """What they work on."""
        self.receiver: Companion | None = None

    async def __aenter__(self) -> Campaign:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.clients.abandon()
        for companion in self._companions():
            companion.end()
        if self.daemon.is_up:
            self.daemon.kill()
        await asyncio.to_thread(until, lambda: not self.daemon.processes())

    def _companions(self) -> list[Companion]:
        return [*self.workers, *([self.receiver] if self.receiver is not None else [])]

    async def start(self) -> None:
        """The daemon, what is beside it, and the load; returns when jobs are taken."""
        self.receiver = Companion(self.daemon, "receiver", str(self.daemon.port))
        url = f"unix:{self.daemon.socket_path}"
        about = (url, *self.remote_types)
        self.workers = [Companion(self.daemon, "worker", *about) for _ in range(self._worker_count)]
        self.daemon.launch()
        await self.daemon.ready()
        await self.receiver_listens()
        self.clients.start()

    async def crash(self, name: str = "kill -9") -> None:
        """kill -9 of the daemon, and a new one that takes jobs."""
        self.daemon.crash(name)
        await self.restart()

    async def restart(self) -> None:
        """A new daemon after the last one ended, in whatever way."""
        self.daemon.launch()
        await self.daemon.ready()

    async def receiver_listens(self) -> None:
        """Wait until webhooks are received."""
        async with asyncio.timeout(DRAIN_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.daemon.port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    def over(self, fault: Injected) -> None:
        """Note that a fault that lasted is over now."""
        fault.ended = Moment.now()

    async def a_while(self, longest: float = 0.3) -> None:
        """Let the load run for a random time."""
        await asyncio.sleep(self.chance.uniform(0, longest))

    async def finish(self) -> Report:
        """End the load, let every job come to its end, stop the daemon, and check."""
        await self.clients.stop()
        await self.drain()
        code = await self.daemon.stop_in_order()
        report = await asyncio.to_thread(check, self.place, self.history)
        if code != 0:
            report.violate("the daemon stops with exit code 0", f"exit {code}")
        if report.violations:
            self.history.save(self.place / "history.json")
        return report

    async def drain(self) -> None:
        """Wait until no job has anything left to do."""
        await self.daemon.ready()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while True:
                    if not await self._unfinished():
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"jobs do not come to an end; seed {self.seed}") from None

    async def _unfinished(self) -> int:
        try:
            async with talk(self.daemon) as session, session.get("/stats") as reply:
                counts = (await reply.json())["counts"]
        except NO_ANSWER:
            return 1
        return sum(counts[status] for status in UNFINISHED)
