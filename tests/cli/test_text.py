"""Times, durations and sizes in words."""

from __future__ import annotations

import pytest

from jobqueued.cli.text import distance, milliseconds, plain, size, span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0ms"),
        (0, "0ms"),
        (0.85, "850ms"),
        (4.24, "4.2s"),
        (12.9, "12s"),
        (60, "1m"),
        (200, "3m 20s"),
        (3600, "1h"),
        (3661, "1h 1m"),
        (86_400 * 5 + 7_200, "5d 2h"),
        (86_400 * 400, "400d"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 51, "2048.0 TiB"),
    ],
)
def test_sizes(amount: int, words: str) -> None:
    assert size(amount) == words


def test_times_are_told_by_their_distance() -> None:
    now = milliseconds("2026-01-31T12:00:00.500Z")
    assert now == 1_769_860_800_500
    assert distance("2026-01-31T11:58:00.500Z", now) == "2m ago"
    assert distance("2026-01-31T14:00:00.500Z", now) == "in 2h"


def test_nothing_a_job_says_steers_the_terminal() -> None:
    assert plain("a\x1b[2Jb\nc\rd\u202eé") == "a\\x1b[2Jb\\nc\\rd\\u202eé"
