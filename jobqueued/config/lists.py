"""The kinds of setting made of several values: addresses, commands, exit codes, variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from jobqueued.config.faults import Invalid, Keys, quoted, show
from jobqueued.config.kinds import NOT_EXPANDED, Kind, Whole, located, unlike
from jobqueued.config.listen import parse_address

SET_BY_DAEMON = frozenset(
    {
        "JOB_ID",
        "JOB_TYPE",
        "JOB_ATTEMPT",
        "JOB_MAX_RETRIES",
        "JOB_PRIORITY",
        "JOB_CREATED_AT",
        "JOB_DEADLINE",
        "JOB_CORRELATION_ID",
        "JOB_KEY",
        "JOB_LEASE_TOKEN",
        "JOBQUEUED_URL",
    }
)
"""Variables every command gets; the configuration cannot set them."""

LONGEST_WORD = 128 * 1024 - 1
"""Bytes the kernel takes for one argument or one `NAME=value`."""
MOST_ITEMS = 1000

Read = TypeVar("Read")


class Addresses(msgspec.Struct, frozen=True):
    """Where to listen."""

    @property
    def accepts(self) -> str:
        return 'a list of addresses such as ["127.0.0.1:5627", "unix:/run/jobqueued.sock"]'

    def read(self, value: object, base: Path) -> tuple[str, ...]:
        items = items_of(self, value, least=1)
        addresses = read_each(items, lambda item: _address(item, base))
        repeated = [i for i, address in enumerate(addresses) if address in addresses[:i]]
        if repeated:
            raise Invalid(*(((i,), f"{show(items[i])} is listed twice") for i in repeated))
        return tuple(addresses)


class Command(msgspec.Struct, frozen=True):
    """A program and its arguments."""

    @property
    def accepts(self) -> str:
        return 'a program and its arguments as a list such as ["resize-image", "--fast"]'

    def read(self, value: object, base: Path) -> tuple[str, ...]:
        if isinstance(value, str):
            hint = ': no shell is involved; where you want one write ["sh", "-c", "…"]'
            raise unlike(self, value, hint)
        words = read_each(items_of(self, value, least=1), _word)
        if not words[0].strip():
            raise Invalid(((0,), f"must name a program, not {show(words[0])}"))
        return _program(words[0], base), *words[1:]


class ExitCodes(msgspec.Struct, frozen=True):
    """Exit codes of a program that failed."""

    @property
    def accepts(self) -> str:
        return "a list of exit codes from 1 to 255 such as [64, 65]"

    def read(self, value: object, base: Path) -> frozenset[int]:
        code = Whole(1, 255)
        return frozenset(read_each(items_of(self, value), lambda item: code.read(item, base)))


class Environment(msgspec.Struct, frozen=True):
    """Variables for a program."""

    @property
    def accepts(self) -> str:
        return 'a table of texts such as { LANG = "C.UTF-8" }'

    def read(self, value: object, base: Path) -> dict[str, str]:
        if not isinstance(value, dict):
            raise unlike(self, value)
        checked = {name: _variable_fault(name, text) for name, text in value.items()}
        faults = {name: fault for name, fault in checked.items() if fault}
        if faults:
            raise Invalid(*(((name,), fault) for name, fault in faults.items()))
        return dict(value)


def items_of(kind: Kind, value: object, least: int = 0) -> list[object]:
    """The items of a list of bounded length."""
    if not isinstance(value, list):
        raise unlike(kind, value)
    if not value and least:
        raise Invalid(((), f"is empty: it must be {kind.accepts}"))
    if len(value) > MOST_ITEMS:
        raise Invalid(((), f"has {len(value)} entries: at most {MOST_ITEMS} are allowed"))
    return value


def read_each(items: list[object], read: Callable[[object], Read]) -> list[Read]:
    """Read every item; the faults of all of them are raised together."""
    values: list[Read] = []
    faults: list[tuple[Keys, str]] = []
    for index, item in enumerate(items):
        try:
            values.append(read(item))
        except Invalid as invalid:
            faults += [((index, *inside), fault) for inside, fault in invalid.faults]
    if faults:
        raise Invalid(*faults)
    return values


def _address(item: object, base: Path) -> str:
    if not isinstance(item, str):
        raise Invalid(((), f"must be an address in quotes, not {show(item)}"))
    try:
        return str(parse_address(item, base))
    except ValueError as error:
        raise Invalid(((), f"{quoted(item)} {error}")) from None


def _word(item: object) -> str:
    if not isinstance(item, str):
        raise Invalid(((), f"must be text in quotes, not {show(item)}"))
    if "\0" in item:
        raise Invalid(((), "must not contain a NUL character"))
    if len(item.encode()) > LONGEST_WORD:
        raise Invalid(((), f"is longer than the {LONGEST_WORD} bytes the system takes"))
    return item


def _program(program: str, base: Path) -> str:
    if program.startswith("~"):
        raise Invalid(((0,), f"{quoted(program)}{NOT_EXPANDED}"))
    return located(program, base)


def _variable_fault(name: str, text: object) -> str | None:
    if not name or "=" in name or "\0" in name:
        return 'is not the name of a variable: it must not be empty or contain "="'
    if name in SET_BY_DAEMON:
        return "is set by jobqueued for every command: choose another name"
    if not isinstance(text, str):
        return f"must be text in quotes, not {show(text)}"
    if "\0" in text:
        return "must not contain a NUL character"
    if len(f"{name}={text}".encode()) > LONGEST_WORD:
        return f"is longer than the {LONGEST_WORD} bytes the system takes"
    return None
