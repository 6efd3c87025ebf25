"""Stores to test; every test that asks for `store` runs on each kind there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobqueued.model.ids import IdMaker
from jobqueued.store.interface import Store
from jobqueued.store.sqlite.store import SqliteStore
from tests.store import support
from tests.store.support import Opener

KINDS = {"sqlite": SqliteStore.open}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture(autouse=True)
def fresh_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "ids", IdMaker())


@pytest.fixture(params=KINDS)
async def opener(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Opener]:
    """Opens the same store again and again; what a failed test left open is closed."""
    opened: list[Store] = []

    async def open_store() -> Store:
        opened.append(await KINDS[request.param](path))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


@pytest.fixture
async def store(opener: Opener) -> Store:
    return await opener()


@pytest.fixture
async def sqlite(path: Path) -> AsyncIterator[SqliteStore]:
    async with support.opened(path) as store:
        yield store
