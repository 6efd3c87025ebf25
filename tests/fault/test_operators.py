"""People at work beside the daemon."""

from __future__ import annotations

from pathlib import Path

from tests.fault import operators  # noqa: F401
from tests.fault.short import suffer


async def test_the_daemon_goes_on(tmp_path: Path) -> None:
    await suffer(
        tmp_path,
        "an operator writes into the file",
        "a second daemon on the same file",
        "an operator is killed in the middle of a write",
        "an operator writes into the file",
    )
