"""How the end of a process becomes an outcome."""

from __future__ import annotations

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.executors.exits import (
    STOPPED,
    Exit,
    duration_text,
    last_lines,
    outcome_of_exit,
    result_of,
    size_text,
)
from jobqueued.executors.interface import StopReason
from jobqueued.model.job import MAX_ERROR
from jobqueued.model.job_type import CommandHandler
from jobqueued.model.outcome import Outcome, OutcomeKind

HANDLER = CommandHandler(argv=("true",))
exits = st.one_of(
    st.integers(0, 255).map(lambda code: Exit(code, None)),
    st.integers(1, 64).map(lambda number: Exit(None, number)),
)
stops = st.one_of(st.none(), st.sampled_from(StopReason))


def outcome(ended: Exit, stop: StopReason | None = None, memory: int | None = None) -> Outcome:
    handler = CommandHandler(argv=("true",), memory=memory)
    return outcome_of_exit(ended, handler=handler, timeout=90_000, stop=stop)


@given(exits, stops, st.binary(max_size=8000))
def test_every_end_has_one_outcome(ended: Exit, stop: StopReason | None, output: bytes) -> None:
    found = outcome_of_exit(ended, handler=HANDLER, timeout=1, stop=stop, output=output)
    if ended.code == 0:
        assert (found.kind, found.error) == (OutcomeKind.COMPLETED, None)
        return
    assert found.error
    assert len(found.error) <= MAX_ERROR
    assert "\0" not in found.error
    if stop is not None:
        assert found.kind is STOPPED[stop]
    elif ended.code is None:
        assert found.kind is OutcomeKind.CRASHED
    else:
        fatal = ended.code in HANDLER.fatal_exit_codes
        assert found.kind is (OutcomeKind.FATAL if fatal else OutcomeKind.FAILED)


@pytest.mark.parametrize(
    ("ended", "stop", "memory", "error"),
    [
        (Exit(1, None), None, None, "exit code 1"),
        (Exit(1, None), StopReason.TIMEOUT, None, "timed out after 1m30s (exit code 1)"),
        (Exit(None, 9), StopReason.CANCELLED, 1 << 20, "cancelled (killed by SIGKILL)"),
        (Exit(None, 11), None, None, "killed by SIGSEGV"),
        (
            Exit(None, 11),
            None,
            512 << 20,
            "killed by SIGSEGV, perhaps out of memory (memory = 512MiB)",
        ),
        (
            Exit(None, 9),
            None,
            1 << 30,
            "killed by SIGKILL, perhaps out of memory (memory = 1GiB)",
        ),
        (
            Exit(None, 9),
            None,
            None,
            "killed by SIGKILL, perhaps because the machine ran out of memory",
        ),
        (Exit(None, signal.SIGRTMIN + 3), None, None, f"killed by signal {signal.SIGRTMIN + 3}"),
    ],
)
def test_the_words(ended: Exit, stop: StopReason | None, memory: int | None, error: str) -> None:
    assert outcome(ended, stop, memory).error == error


@given(st.binary(max_size=200))
def test_every_result_is_json(written: bytes) -> None:
    result = result_of(written)
    if result is None:
        assert not written.strip(b" \t\r\n")
    else:
        json.loads(result)


def test_a_deep_result_is_text() -> None:
    deep = b"[" * 30_000 + b"]" * 30_000
    assert result_of(deep) == b'"' + deep + b'"'


def test_the_last_lines_are_readable() -> None:
    output = b"a\nb\n\x1b[31mred\x1b[0m\x00\n\n  c \xff\n\n"
    assert last_lines(output) == "b\nred\n  c \N{REPLACEMENT CHARACTER}"
    assert len(last_lines(b"x" * 5000)) == 1000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(250, "250ms"), (1500, "1.5s"), (30_000, "30s"), (120_000, "2m"), (5_400_000, "1h30m")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(64 << 10, "64KiB"), (3 << 30, "3GiB"), (1000, "1000 bytes")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
