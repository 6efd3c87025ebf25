from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jobqueued import clock
from jobqueued.config import Config
from jobqueued.engine.service import Engine
from jobqueued.engine.settle import Settler
from jobqueued.executors.command import CommandExecutor
from jobqueued.store.sqlite.store import SqliteStore
from tests.engine.support import Gate, HandClock, read_config


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return read_config(tmp_path)


@pytest.fixture
async def store(config: Config) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(config.store.path)
    yield opened
    await opened.close()


@pytest.fixture
async def engine(config: Config, store: SqliteStore) -> AsyncIterator[Engine]:
    """An engine whose parts stand still: each round is run by hand."""
    built = Engine(config, store, {})
    yield built
    await built.close()


@pytest.fixture
def settler(engine: Engine) -> Settler:
    return Settler(engine.shared)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
async def live(config: Config, store: SqliteStore, gate: Gate) -> AsyncIterator[Engine]:
    """An engine that runs commands."""
    executor = CommandExecutor()
    running = Engine(config, store, {"command": executor})
    await running.start()
    yield running
    running.shared.draining = True
    running.shared.running.stop_all(kill=True)
    await running.shared.running.wait_until_empty()
    await running.close()
    await executor.close()


@pytest.fixture
def hand_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    moved = HandClock()
    monkeypatch.setattr(clock, "now", moved)
    monkeypatch.setattr(clock, "monotonic", moved.monotonic)
    return moved
