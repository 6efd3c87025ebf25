"""The real daemon and the processes around it, to be killed, stopped and started again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from tests.acceptance.support import Serving, environment
from tests.api.support import PATIENCE, ROOT, free_port
from tests.fault.history import History, Injected, Moment

WORKERS = {"default": 6, "narrow": 2}
"""By pool."""
LIMITS = {"function": 2, "single": 1}
"""Most jobs that run at a time, by type."""

CONFIG = f"""
[shutdown]
drain_timeout = "300ms"
kill_timeout = "300ms"
[pools.default]
workers = {WORKERS["default"]}
[pools.narrow]
workers = {WORKERS["narrow"]}
[defaults]
backoff = {{ base = "50ms", factor = 1.0, jitter = "50ms" }}
kill_grace = "200ms"
timeout = "30s"
breaker = {{ probe_every = "1s" }}
[types.command]
command = ["{{python}}", "-S", "{{root}}/tests/fault/handlers/command.py", "{{place}}"]
env = {{ PYTHONPATH = "{{root}}" }}
result = "stdout"
[types.single]
command = ["{{python}}", "-S", "{{root}}/tests/fault/handlers/command.py", "{{place}}"]
env = {{ PYTHONPATH = "{{root}}" }}
result = "stdout"
pool = "narrow"
kill_grace = "5s"
max_running = {LIMITS["single"]}
[types.function]
python = "tests.fault.handlers.function:perform"
python_path = ["{{root}}"]
env = {{ FAULT_PLACE = "{{place}}" }}
max_running = {LIMITS["function"]}
[types.webhook]
http = {{ url = "http://127.0.0.1:{{port}}/" }}
[types.remote]
remote = true
lease = "5s"
"""


class FaultDaemon(Serving):
    """`jobqueued serve` under a fault: other variables, another program around it."""

    def __init__(self, place: Path, history: History, config: str = CONFIG) -> None:
        self.history = history
        self.port = free_port()
        self.variables: dict[str, str] = {}
        """Of every start from now on, LD_PRELOAD for one."""
        self.program: tuple[str, ...] = ("-m", "jobqueued")
        """What Python runs in place of the command, of every start from now on."""
        super().__init__(place, config.replace("{port}", str(self.port)))

    @property
    def database(self) -> Path:
        return self.place / "jobs.db"

    @property
    def is_up(self) -> bool:
        return hasattr(self, "process") and self.process.poll() is None

    def launch(self, *wrapper: str, **variables: str) -> None:
        """Start the process; wait for nothing."""
        self.launched_at = time.time()
        serve = (*self.program, "serve", "--config", str(self.config_path))
        with (self.place / "serve.log").open("a") as log:
            self.process = subprocess.Popen(
                [*wrapper, sys.executable, *serve],
                cwd=self.place,
                env=environment(self.place) | self.variables | variables,
                stdout=log,
                stderr=log,
            )

    def crash(self, name: str = "kill -9") -> Injected:
        """kill -9, on record."""
        fault = self.history.injected(name, self.process.pid)
        self.kill()
        fault.ended = Moment.now()
        return fault

    async def ready(self) -> None:
        """Wait until it takes jobs."""
        async with asyncio.timeout(PATIENCE), talk(self) as session:
            while True:
                assert self.is_up, f"exit {self.process.returncode}: {self.log()[-3000:]}"
                try:
                    async with session.get("/readyz") as reply:
                        if reply.status == 200:
                            return
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(0.01)

    async def ended(self) -> int:
        """Wait until the process is gone by itself; its exit code, negative for a signal."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if (code := self.process.poll()) is not None:
                    return code
                await asyncio.sleep(0.005)

    async def stop_in_order(self) -> int:
        """SIGTERM, on record because it may interrupt what runs; the exit code."""
        self.history.injected("orderly stop", self.process.pid)
        self.process.terminate()
        return await self.ended()


def talk(daemon: FaultDaemon, seconds: float = 5.0) -> aiohttp.ClientSession:
    """Plain HTTP to the daemon, over its socket."""
    return aiohttp.ClientSession(
        "http://localhost",
        connector=aiohttp.UnixConnector(str(daemon.socket_path), limit=0),
        timeout=aiohttp.ClientTimeout(total=seconds),
    )


class Companion:
    """A process beside the daemon: the receiver of webhooks, or a remote worker."""

    def __init__(self, daemon: FaultDaemon, script: str, *arguments: str) -> None:
        self._daemon = daemon
        self._script = script
        self._arguments = arguments
        self.start()

    def start(self) -> None:
        """Start it; again, when it was killed."""
        place = self._daemon.place
        with (place / f"{self._script}.log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(ROOT / "tests" / "fault" / "handlers" / f"{self._script}.py"),
                    str(place),
                    *self._arguments,
                ],
                env=environment(place),
                stdout=log,
                stderr=log,
            )

    def kill(self) -> Injected:
        """kill -9, on record."""
        fault = self._daemon.history.injected(f"kill -9 of {self._script}", self.process.pid)
        self.end()
        fault.ended = Moment.now()
        return fault

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(PATIENCE)
