"""One recorded run of a daemon for all tests that only look at it."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from tests.fault.power.runs import Recorded, record, stop_and_start, work
from tests.fault.preload import no_compiler


@pytest.fixture(scope="session")
def seed() -> str:
    """Of everything random, shown where a test fails."""
    return secrets.token_hex(4)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of the test's own, named as the record names it."""
    return tmp_path.resolve()


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, seed: str) -> Recorded:
    """A run from its first start over an orderly restart to its end."""
    missing = no_compiler()
    if missing is not None:
        pytest.skip(missing)
    place = tmp_path_factory.mktemp("recorded")
    return asyncio.run(record(place, [work(1), stop_and_start, work(0.7)], seed=seed))
