"""kill -9 under load, at random moments and at named points: nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.faults import FAULTS, declare_all
from tests.fault.faulty import POINTS
from tests.fault.short import suffer

RANDOM = {
    "kill -9 at a random moment": 6,
    "kill -9 of a remote worker": 2,
    "kill -9 of the receiver of webhooks": 2,
    "kill -9 of a handler": 3,
}
"""How often each."""
declare_all()


async def test_nothing_is_lost_at_random_moments(tmp_path: Path) -> None:
    report = await suffer(tmp_path, *(name for name, times in RANDOM.items() for _ in range(times)))
    assert report.acknowledged > 0


def points_in(*words: str) -> list[str]:
    return [f"kill -9 {point}" for point in POINTS if any(word in point for word in words)]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(points_in("after"), id="in the life of a job"),
        pytest.param(points_in("during"), id="in the care of the file"),
        pytest.param(points_in("shutdown"), id="in a shutdown"),
    ],
)
async def test_nothing_is_lost_at_named_points(tmp_path: Path, names: list[str]) -> None:
    report = await suffer(tmp_path, *names)
    assert report.acknowledged > 0


def test_no_named_point_is_left_out() -> None:
    tested = [*points_in("after"), *points_in("during"), *points_in("shutdown")]
    assert sorted(tested) == sorted(f"kill -9 {point}" for point in POINTS)
    assert set(tested) | set(RANDOM) <= set(FAULTS)
