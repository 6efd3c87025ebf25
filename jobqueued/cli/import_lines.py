"""A line of an import: what of it is submitted, and under which idempotency key."""

from __future__ import annotations

import errno
import json
import sqlite3
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import Raw

from jobqueued.cli.import_source import LONGEST_LINE, Piece
from jobqueued.client.models import Job

SUBMITTED = frozenset(
    {
        *("type", "payload", "priority", "max_retries", "delay_seconds", "run_at"),
        *("expires_in_seconds", "expires_at", "idempotency_key", "correlation_id", "key"),
    }
)
DROPPED = {*Job.__struct_encode_fields__, "attempts", "lease"} - SUBMITTED
"""What only a daemon says of a job, as `export` and `show --json` write it."""

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_NULL = b"null"
_MEMORY_KIB = 16 * 1024


class BadLine(Exception):
    """A line that is not sent at all; the message says why."""


class Entry(NamedTuple):
    """A line and what is sent of it."""

    piece: Piece
    body: bytes


class Keys:
    """Idempotency keys for lines that have none.

    The same line of the same import has the same key whenever it is read, wherever in the file
    it has moved to; what is there twice has two. Counting them takes a file once memory is used up.
    """

    def __init__(self, name: str) -> None:
        self._name = blake2b(name.encode(errors="surrogateescape") + b"\0", digest_size=16)
        self._seen = sqlite3.connect("", isolation_level=None)
        self._seen.execute("PRAGMA journal_mode = OFF")
        self._seen.execute(f"PRAGMA cache_size = -{_MEMORY_KIB}")
        self._seen.execute("CREATE TABLE seen (digest INTEGER PRIMARY KEY, times INTEGER)")
        self._seen.execute("BEGIN")

    def key(self, content: bytes) -> str:
        """The key of the next line that says this."""
        digest = self._name.copy()
        digest.update(content)
        number = int.from_bytes(digest.digest()[:8], signed=True)
        return f"import-{digest.hexdigest()}-{self._times(number)}"

    def _times(self, number: int) -> int:
        try:
            [(times,)] = self._seen.execute(
                "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1"
                " RETURNING times",
                (number,),
            ).fetchall()
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"a temporary file cannot be used: {error}") from error
        return int(times)


class LineReader:
    """Makes submissions of lines; a default type is for those that have none."""

    def __init__(self, name: str, default_type: str | None) -> None:
        self._keys = Keys(name)
        self._default = None if default_type is None else Raw(msgspec.json.encode(default_type))

    def read(self, piece: Piece) -> Entry:
        """What to send for a line; raises BadLine."""
        if piece.text is None:
            raise BadLine(f"is longer than {LONGEST_LINE} bytes")
        given = _fields(piece.text)
        sent = {
            name: raw for name, raw in given.items() if name not in DROPPED and bytes(raw) != _NULL
        }
        if self._default is not None:
            sent.setdefault("type", self._default)
        if "idempotency_key" not in sent:
            # Of two exports of a job that was not touched only what a daemon says may differ.
            content = bytes(given.get("id", b"")) + b"\0" + msgspec.json.encode(sent)
            sent["idempotency_key"] = Raw(msgspec.json.encode(self._keys.key(content)))
        return Entry(piece, msgspec.json.encode(sent))


def rejection(piece: Piece, reasons: list[str]) -> bytes:
    """A rejected line as it is kept, such that `import` reads it again."""
    head = {"line": piece.number, "reasons": reasons}
    if piece.text is None:
        return json.dumps(head | {"start": piece.start, "bytes": piece.end - piece.start}).encode()
    try:
        _fields(piece.text)
    except BadLine:
        kept = json.dumps(piece.text.decode(errors="surrogateescape")).encode()
        return json.dumps(head).encode()[:-1] + b', "text": ' + kept + b"}"
    return json.dumps(head).encode()[:-1] + b', "job": ' + piece.text + b"}"


def unwrapped(piece: Piece) -> Piece:
    """The line that was rejected once, where this is what was kept of it."""
    if piece.text is None or b'"reasons"' not in piece.text:
        return piece
    try:
        kept = json.loads(piece.text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return piece
    if not isinstance(kept, dict) or not {"line", "reasons"} <= kept.keys():
        return piece
    if isinstance(kept.get("text"), str):
        return piece._replace(text=kept["text"].encode(errors="surrogateescape").strip())
    return piece._replace(text=bytes(_fields(piece.text)["job"])) if "job" in kept else piece


def _fields(text: bytes) -> dict[str, Raw]:
    try:
        text.decode()
        return _OBJECT.decode(text)
    except UnicodeDecodeError as error:
        raise BadLine(f"is not UTF-8 (byte {error.start} of the line)") from None
    except msgspec.ValidationError:
        raise BadLine("must be a JSON object: one job on one line") from None
    except msgspec.DecodeError as error:
        raise BadLine(f"is not JSON: {error}") from None
    except RecursionError:
        raise BadLine("is nested too deeply") from None
