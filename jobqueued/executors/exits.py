"""How the end of a process becomes the outcome of an attempt. Pure functions."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

import msgspec

from jobqueued.executors.interface import StopReason
from jobqueued.model.job import MAX_ERROR, MAX_RESULT
from jobqueued.model.job_type import CommandHandler
from jobqueued.model.outcome import Outcome, OutcomeKind

LAST_LINES = 3
LAST_CHARACTERS = 1000
MEMORY_SIGNALS = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})
STOPPED = {
    StopReason.TIMEOUT: OutcomeKind.TIMEOUT,
    StopReason.CANCELLED: OutcomeKind.CANCELLED,
    StopReason.INTERRUPTED: OutcomeKind.INTERRUPTED,
}
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: by itself with a code, or by a signal."""

    code: int | None
    signal: int | None
    max_rss_bytes: int | None = None
    cpu_ms: int | None = None


def outcome_of_exit(
    ended: Exit,
    *,
    handler: CommandHandler,
    timeout: int,
    stop: StopReason | None,
    output: bytes = b"",
) -> Outcome:
    """What an attempt came to; `output` is the end of what the process wrote."""
    kind = _kind(ended, handler, stop)
    return Outcome(
        kind=kind,
        error=_error(kind, ended, handler, timeout, output),
        exit_code=ended.code,
        max_rss_bytes=ended.max_rss_bytes,
        cpu_ms=ended.cpu_ms,
    )


def outcome_before_start(stop: StopReason, timeout: int) -> Outcome:
    """What becomes of an attempt that was stopped before its process existed."""
    kind = STOPPED[stop]
    return Outcome(kind=kind, error=f"{stopped_text(kind, timeout)} before it was started")


def with_result(outcome: Outcome, written: bytes, whole: bool) -> Outcome:
    """Add what was written to standard output as the result of a completed attempt."""
    if outcome.kind is not OutcomeKind.COMPLETED:
        return outcome
    result = result_of(written) if whole else None
    if whole and (result is None or len(result) <= MAX_RESULT):
        return msgspec.structs.replace(outcome, result=result)
    error = f"the result on standard output is larger than {size_text(MAX_RESULT)}"
    return msgspec.structs.replace(outcome, kind=OutcomeKind.FATAL, error=error)


def result_of(written: bytes) -> bytes | None:
    """JSON where it is JSON, byte for byte; else the text as a JSON string; None for nothing."""
    text = written.strip(b" \t\r\n")
    if not text:
        return None
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(written.decode(errors="replace").removesuffix("\n"))
    return text


def last_lines(output: bytes) -> str:
    """The last lines that say something, fit for an error message."""
    text = _CONTROL.sub("", output.decode(errors="replace"))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])[-LAST_CHARACTERS:]


def duration_text(milliseconds: int) -> str:
    """`2m`, `1h30m`, `1.5s`, `250ms`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:g}s"
    seconds = milliseconds // 1000
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


def size_text(size: int) -> str:
    """`512MiB`, `64KiB`."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size} bytes"


def stopped_text(kind: OutcomeKind, timeout: int) -> str:
    """Why a handler was stopped."""
    if kind is OutcomeKind.TIMEOUT:
        return f"timed out after {duration_text(timeout)}"
    return "cancelled" if kind is OutcomeKind.CANCELLED else "interrupted by a shutdown"


def ending_text(ended: Exit, memory: int | None, hint: bool) -> str:
    """How a process ended; with `hint` also what may have been the cause."""
    if ended.signal is None:
        return f"exit code {ended.code}"
    text = f"killed by {_signal_name(ended.signal)}"
    if not hint or ended.signal not in MEMORY_SIGNALS:
        return text
    if memory is not None:
        return f"{text}, perhaps out of memory (memory = {size_text(memory)})"
    if ended.signal == signal.SIGKILL:
        return f"{text}, perhaps because the machine ran out of memory"
    return text


def _kind(ended: Exit, handler: CommandHandler, stop: StopReason | None) -> OutcomeKind:
    if ended.code == 0:
        return OutcomeKind.COMPLETED
    if stop is not None:
        return STOPPED[stop]
    if ended.code is None:
        return OutcomeKind.CRASHED
    return OutcomeKind.FATAL if ended.code in handler.fatal_exit_codes else OutcomeKind.FAILED


def _error(
    kind: OutcomeKind, ended: Exit, handler: CommandHandler, timeout: int, output: bytes
) -> str | None:
    if kind is OutcomeKind.COMPLETED:
        return None
    what = ending_text(ended, handler.memory, hint=kind is OutcomeKind.CRASHED)
    if kind in STOPPED.values():
        what = f"{stopped_text(kind, timeout)} ({what})"
    said = last_lines(output)
    return (f"{what}: {said}" if said else what)[:MAX_ERROR]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
