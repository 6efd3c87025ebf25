from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.config import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from jobqueued.config.units import DURATION_UNITS, RATE_UNITS, SIZE_UNITS


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("1.5s", 1_500),
        ("0.25h", 900_000),
        ("0s", 0),
        ("007s", 7_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512B", 512),
        ("64KiB", 65_536),
        ("8MiB", 8_388_608),
        ("1GiB", 1_073_741_824),
        ("2TiB", 2_199_023_255_552),
        ("1.5KiB", 1_536),
        ("0B", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "s", "30", "30 s", " 30s", "30s ", "30s\n", "-1s", "+1s", "1e3s", ".5s", "1.s", "1h30m",
     "30S", "1w", "٣s", "1_000s", "1,5s", "9" * 16 + "s", "nan", "infs"],
)  # fmt: skip
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write one number and one unit of ms"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "64", "64KB", "64kib", "64 KiB", "-1B", "1PiB", "B", "1KiB1B"]
)
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: write one number and one unit of B, KiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("5 min", "5m"), ("30 s", "30s"), ("2 Hours", "2h"), ("1day", "1d"), ("10 msec", "10ms"),
     ("1.5 secs.", "1.5s")],
)  # fmt: skip
def test_suggested_durations(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf'\(did you mean "{meant}"\?\)'):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("64KB", "64KiB"), ("64k", "64KiB"), ("8 mb", "8MiB"), ("1G", "1GiB"), ("10 bytes", "10B")],
)
def test_suggested_sizes(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf'\(did you mean "{meant}"\?\)'):
        parse_size(text)


def test_no_suggestion_for_an_unknown_unit() -> None:
    with pytest.raises(ValueError, match="is not a duration") as caught:
        parse_duration("3weeks")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("text", ["0.5ms", "0.0001s", "1.0000001h"])
def test_durations_are_whole_milliseconds(text: str) -> None:
    with pytest.raises(ValueError, match="finer than a millisecond"):
        parse_duration(text)


def test_sizes_are_whole_bytes() -> None:
    with pytest.raises(ValueError, match="finer than a byte"):
        parse_size("0.3KiB")


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0s"), (90_000, "90s"), (3_600_000, "1h"), (1_001, "1001ms")]
)
def test_durations_are_written_short(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0B"), (1_536, "1536B"), (8_388_608, "8MiB")])
def test_sizes_are_written_short(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 10**15 - 1))
def test_a_written_duration_reads_the_same(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@given(st.integers(0, 10**15 - 1))
def test_a_written_size_reads_the_same(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(0, 10**15 - 1), st.sampled_from(sorted(DURATION_UNITS)))
def test_every_whole_duration_is_exact(count: int, unit: str) -> None:
    assert parse_duration(f"{count}{unit}") == count * DURATION_UNITS[unit]


@given(st.integers(0, 10**15 - 1), st.sampled_from(sorted(SIZE_UNITS)))
def test_every_whole_size_is_exact(count: int, unit: str) -> None:
    assert parse_size(f"{count}{unit}") == count * SIZE_UNITS[unit]


@given(st.integers(1, 10**9 - 1), st.sampled_from(sorted(RATE_UNITS)))
def test_a_written_rate_reads_the_same(count: int, unit: str) -> None:
    rate = parse_rate(f"{count}/{unit}")
    assert (rate.count, rate.per) == (count, RATE_UNITS[unit])
    assert format_rate(rate) == f"{count}/{unit}"


@pytest.mark.parametrize(
    "text",
    ["", "/s", "1", "1/", "1/m", "1/sec", "-1/s", "1 /s", "1/S", "٣/s", "1/s\n", "0/s", "1e3/s"],
)
def test_what_is_not_a_rate(text: str) -> None:
    with pytest.raises(ValueError, match='is not a rate: write a whole number from 1, "/" and one'):
        parse_rate(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0
    with contextlib.suppress(ValueError):
        assert format_rate(parse_rate(text))
