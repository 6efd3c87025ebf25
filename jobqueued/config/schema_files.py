"""The schemas of payloads: read from their files, and held to what can be used."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from jobqueued.config.faults import Faults, Keys, dotted, shown_path
from jobqueued.config.read import Reader, Values
from jobqueued.config.schema import LARGEST, BadSchema, check_schema
from jobqueued.config.units import format_size

SETTING = "payload_schema"


class Unreadable(ValueError):
    """The schema may be good, but not for this user to see."""


def read_schemas(reader: Reader, types: Mapping[str, Values], unreadable: Faults) -> dict[str, str]:
    """The schema of every type that has a good one, by its name; the others are faults."""
    schemas: dict[str, str] = {}
    for name, own in types.items():
        source = own.get(SETTING)
        if source is not None:
            text = _checked(reader, ("types", name, SETTING), source, unreadable)
            schemas |= {} if text is None else {name: text}
    return schemas


def _checked(reader: Reader, keys: Keys, source: Path | str, unreadable: Faults) -> str | None:
    try:
        text = source if isinstance(source, str) else _content(source)
        check_schema(text)
    except Unreadable as error:
        reader.note(unreadable, keys, str(error))
    except BadSchema as bad:
        for inside, message in bad.faults:
            _note(reader, keys, source, inside, message)
    except ValueError as error:
        reader.fault(keys, f"{shown_path(Path(source))} {error}")
    else:
        return text
    return None


def _note(reader: Reader, keys: Keys, source: Path | str, inside: Keys, message: str) -> None:
    """The keys of a table lead on into it; for a file they are part of what is said."""
    if isinstance(source, str):
        reader.fault((*keys, *inside), message)
    else:
        where = f"{dotted(inside)} " if inside else ""
        reader.fault(keys, f"{shown_path(source)}: {where}{message}")


def _content(file: Path) -> str:
    try:
        return _read(file).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from None
    except FileNotFoundError:
        start = "a relative path starts at the directory of the configuration file"
        raise ValueError(f"is not there; {start}") from None
    except PermissionError:
        fix = "give the user jobqueued runs as the right to read it"
        raise Unreadable(f"{shown_path(file)} may not be read by this user: {fix}") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def _read(file: Path) -> bytes:
    # A pipe without a writer must not hold up the start.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("is not an ordinary file")
        content = opened.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"is larger than {format_size(LARGEST)}, the most a schema may have")
    return content
