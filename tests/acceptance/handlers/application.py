"""Functions that an application might have: most of them well behaved, some of them not."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

held: list[bytearray] = []


def work(payload: Any) -> Any:
    """Do what the payload names first with what it names second."""
    name, *rest = payload
    return ACTS[name](*rest)


def note(payload: Any, context: Any) -> Any:
    """Write down that this attempt was started, in one write: lines never mix."""
    descriptor = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{context.id} {context.attempt}\n".encode())
    os.close(descriptor)
    return payload


def note_slowly(payload: Any, context: Any) -> Any:
    """The same, and take a while: most of the time such a function is running."""
    note(payload, context)
    time.sleep(0.02)
    return payload


def echo(value: Any) -> Any:
    return value


def process(seconds: float = 0.0) -> int:
    """Which process this is, after a while."""
    time.sleep(seconds)
    return os.getpid()


def crash() -> None:
    ctypes.string_at(0)


def spin() -> None:
    while True:
        pass


def leak() -> None:
    while True:
        held.append(bytearray(8 * 1024 * 1024))


ACTS: dict[str, Callable[..., Any]] = {
    "echo": echo,
    "process": process,
    "crash": crash,
    "spin": spin,
    "leak": leak,
}
