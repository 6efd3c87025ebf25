"""The daemon: builds every part, starts them, stops them in named stages."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import uvloop

from jobqueued import clock
from jobqueued.api.server import HttpServer
from jobqueued.config import Config, TcpAddress, load_config, needs_restart, parse_address
from jobqueued.engine.service import Engine
from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.http import HttpExecutor
from jobqueued.executors.interface import Executor
from jobqueued.executors.launcher_link import take_in_orphans
from jobqueued.executors.python import PythonExecutor
from jobqueued.model.errors import ConfigError, JobqueuedError
from jobqueued.observe.log import set_up_log
from jobqueued.store.sqlite.files import InstanceLock, make_directory
from jobqueued.store.sqlite.store import SqliteStore
from jobqueued.systemd import Systemd, passed_sockets

log = logging.getLogger("jobqueued.daemon")

_SWITCH_INTERVAL = 0.0001
"""Seconds; the default makes the writer's thread wait too long for its turn."""
_COLLECT_AFTER = 10_000
"""New objects between two garbage collections; requests leave no cycles behind."""
_FLUSH_SECONDS = 10.0
_OPEN_PATIENCE_SECONDS = 30.0
_LAST_RESORT_SECONDS = 60.0
"""Past every stage's own limit: a disk that never answers must not keep the process alive."""


def run(config_path: Path) -> int:
    """Serve until told to stop; the process's exit code."""
    config = load_config(config_path)
    set_up_log()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    # Until the daemon can reload: the default would end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _raise_descriptor_limit()
    take_in_orphans()
    make_directory(config.store.path.parent)
    lock = InstanceLock(config.store.path)
    try:
        return uvloop.run(_serve(config_path, config, lock))
    finally:
        lock.release()


async def _serve(config_path: Path, config: Config, lock: InstanceLock) -> int:
    daemon = Daemon(config_path, config, lock)
    try:
        await daemon.start()
        return await daemon.until_stopped()
    except JobqueuedError as error:
        log.critical("%s", error)
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        log.critical("cannot start: %s%s", where, error.strerror or error)
        return 74


class Daemon:
    """All parts of one running jobqueued."""

    def __init__(self, config_path: Path, config: Config, lock: InstanceLock) -> None:
        self._config_path = config_path
        self._config = self._started_with = config
        self._lock = lock
        self._systemd = Systemd()
        self._skip = asyncio.Event()
        self._stop = asyncio.Event()
        self._watchdog: asyncio.Task[None] | None = None
        self._announced = False

    async def start(self) -> None:
        """Open the store, take up what was left, listen, and say so."""
        config = self._config
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        self.store = await self._open_store()
        self._executors = self._make_executors()
        self.engine = Engine(config, self.store, self._executors)
        self.http = HttpServer(self.engine, config.server.listen, passed_sockets())
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        try:
            await self.http.start()
            self.engine.shared.url = _handler_url(self.http.addresses)
            await self.engine.start()
        except BaseException:
            await self._close()
            raise
        # What is there now stays: no collection has to look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        self._announce_start()

    def _make_executors(self) -> dict[str, Executor]:
        held = (self._lock.fd,)
        python = PythonExecutor(
            held,
            on_progress=lambda *report: self.engine.note_progress(*report),
            on_extend=lambda *wish: self.engine.extend_attempt(*wish),
        )
        return {"command": CommandExecutor(held), "http": HttpExecutor(), "python": python}

    async def _open_store(self) -> SqliteStore:
        """A migration with its backup may take minutes: systemd is asked for patience."""
        settings = self._config.store
        opening = asyncio.create_task(SqliteStore.open(settings.path, settings.durability))
        while not opening.done():
            self._systemd.extend(_OPEN_PATIENCE_SECONDS)
            await asyncio.wait([opening], timeout=_OPEN_PATIENCE_SECONDS / 3)
        return await opening

    def _announce_start(self) -> None:
        self._announced = True
        waiting = self.store.counts.waiting
        log.info(
            "ready on %s; process %d, %d types, %d jobs waiting, database %s",
            ", ".join(self.http.addresses), os.getpid(), len(self._config.types), waiting,
            self.store.path,
        )  # fmt: skip
        self._systemd.ready()
        self._systemd.status(f"{waiting} jobs waiting")
        if self._systemd.watchdog_seconds is not None:
            self._watchdog = asyncio.create_task(self._feed_watchdog(), name="watchdog")

    async def _feed_watchdog(self) -> None:
        while True:
            if self.engine.is_making_progress():
                self._systemd.watchdog()
            await asyncio.sleep((self._systemd.watchdog_seconds or 2.0) / 2)

    def reload(self) -> None:
        """SIGHUP: a valid file takes effect, an invalid one changes nothing."""
        self._systemd.reloading()
        try:
            config = load_config(self._config_path)
        except ConfigError as error:
            log.error("configuration not reloaded, the old one stays:\n%s", error)
        else:
            for key in needs_restart(self._started_with, config):
                log.warning("%s has changed: it takes effect after a restart", key)
            self._config = config
            self.engine.reload(config)
            log.info("configuration reloaded: %d types", len(config.types))
        self._systemd.ready()

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            log.warning("asked again: skipping ahead")
            self._skip.set()
        self._stop.set()

    async def until_stopped(self) -> int:
        """Wait for a signal or for the store to fail, then stop in order; the exit code."""
        self.store.failed.add_done_callback(lambda _: self._stop.set())
        await self._stop.wait()
        if self.store.failed.done():
            await self._stop_at_once()
        else:
            await self._stop_in_stages()
        return self.store.failed.result().exit_code if self.store.failed.done() else 0

    async def _stop_at_once(self) -> None:
        log.critical("stopping at once: %s", self.store.failed.result())
        _end_for_certain(_LAST_RESORT_SECONDS)
        self.engine.drain()
        self.engine.shared.running.stop_all(kill=True)
        await self._close()

    async def _stop_in_stages(self) -> None:
        began = clock.monotonic()
        shutdown, running = self._config.shutdown, self.engine.shared.running
        self._systemd.stopping()
        limit = (shutdown.drain_timeout + shutdown.kill_timeout) / 1000 + _LAST_RESORT_SECONDS
        self._systemd.extend(limit)
        _end_for_certain(limit)
        self._stage("refuse", "no more submissions")
        self.engine.drain()
        self._stage("hold", "no more claims")
        await self.engine.shared.dispatcher.stop()
        self._stage("drain", f"waiting for {len(running)} running jobs")
        if not await self._drained(shutdown.drain_timeout):
            self._stage("terminate", f"telling {len(running)} handlers to stop")
            running.stop_all(kill=False)
            if not await self._drained(shutdown.kill_timeout):
                self._stage("kill", f"killing {len(running)} handlers")
                running.stop_all(kill=True)
                await self._drained(int(_FLUSH_SECONDS * 1000))
        await self._close()
        self._stage("end", f"stopped in {clock.monotonic() - began:.1f} s")

    async def _drained(self, limit: int) -> bool:
        """Whether nothing runs any more; a second signal cuts the wait short."""
        empty = asyncio.create_task(self.engine.shared.running.wait_until_empty())
        skip = asyncio.create_task(self._skip.wait())
        await asyncio.wait([empty, skip], timeout=limit / 1000, return_when=asyncio.FIRST_COMPLETED)
        skip.cancel()
        self._skip.clear()
        if not empty.done():
            empty.cancel()
            return False
        return True

    def _stage(self, name: str, text: str) -> None:
        if self._announced:
            log.info("shutdown stage %s: %s", name, text)
        self._systemd.status(f"stopping: {text}")

    async def _close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._stage("flush", "writing the last outcomes")
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self.engine.close()
        for executor in self._executors.values():
            await executor.close()
        self._stage("close", "closing connections and the database")
        await self.http.close()
        await self.engine.take_back()
        await self.store.close()
        self._systemd.close()


def _raise_descriptor_limit() -> None:
    """Every connection and every handler needs some; the soft limit is for those who use select."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_for_certain(seconds: float) -> None:
    """End the process after so long, whatever hangs; the next start takes up what was running."""
    timer = threading.Timer(seconds, os._exit, [74])
    timer.daemon = True
    timer.start()


def _handler_url(addresses: list[str]) -> str:
    """The address given to handlers: loopback where there is one, else the socket."""
    for text in addresses:
        address = parse_address(text)
        if isinstance(address, TcpAddress):
            host = f"[{address.host}]" if ":" in address.host else address.host
            return f"http://{host}:{address.port}"
    return addresses[0] if addresses else ""
