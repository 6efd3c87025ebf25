"""What the tests of faults share: daemons of their own, and libraries to preload."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.conftest import prepare, serve
from tests.acceptance.support import Serving
from tests.fault.preload import FaultyDisk, JumpingClock, no_compiler

__all__ = ["prepare", "serve"]

DiskOf = Callable[[Serving], FaultyDisk]
ClockOf = Callable[[Serving], JumpingClock]


@pytest.fixture
def compiler() -> None:
    """For tests that build a library."""
    missing = no_compiler()
    if missing is not None:
        pytest.skip(missing)
