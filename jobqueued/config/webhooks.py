"""The kinds of setting that `http` handlers have. No message shows a URL, a header or a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jobqueued.config.faults import Invalid, Keys, quoted, show
from jobqueued.config.hosts import check_url, read_host
from jobqueued.config.kinds import Kind, unlike
from jobqueued.config.lists import items_of, read_each
from jobqueued.model.webhook_secret import PREFIX

SENT_BY_DAEMON = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "traceparent",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to the request itself; the configuration cannot set them."""
SENT_PREFIXES = ("webhook-", "jobqueued-")

MOST_HEADERS = 100
LONGEST_HEADER = 8000
DEEPEST_FIELD = 20
MOST_SECRETS = 10

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TEXT = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
_CREDENTIAL = re.compile(r"(?!\.{1,2}\Z)[\x21-\x2e\x30-\x39\x3b-\x7e]{1,255}")


class Url(msgspec.Struct, frozen=True):
    """Where webhooks are posted to."""

    @property
    def accepts(self) -> str:
        return 'a URL such as "https://example.com/hooks/notify"'

    def read(self, value: object, base: Path) -> str:
        if not isinstance(value, str):
            raise unlike(self, value)
        try:
            check_url(value)
        except ValueError as error:
            raise Invalid(((), str(error))) from None
        return value


class PayloadField(msgspec.Struct, frozen=True):
    """A field of the payload, as the keys that lead to it."""

    @property
    def accepts(self) -> str:
        return 'a field of the payload such as "payload.url"'

    def read(self, value: object, base: Path) -> tuple[str, ...]:
        if not isinstance(value, str):
            raise unlike(self, value)
        start, *keys = value.split(".")
        if start != "payload" or not keys or not all(keys):
            hint = f" (did you mean {quoted(f'payload.{value}')}?)" if value.isidentifier() else ""
            raise unlike(self, value, hint if start != "payload" else "")
        if len(keys) > DEEPEST_FIELD:
            raise Invalid(((), f"has {len(keys)} levels: at most {DEEPEST_FIELD} are allowed"))
        return tuple(keys)


class Hosts(msgspec.Struct, frozen=True):
    """Hosts that a payload may name."""

    @property
    def accepts(self) -> str:
        return 'a list of hosts such as ["hooks.example.com", "*.example.org"]'

    def read(self, value: object, base: Path) -> tuple[str, ...]:
        return tuple(read_each(items_of(self, value, least=1), _host))


class Headers(msgspec.Struct, frozen=True):
    """Headers of a request."""

    @property
    def accepts(self) -> str:
        return 'a table of texts such as { Authorization = "Bearer …" }'

    def read(self, value: object, base: Path) -> dict[str, str]:
        if not isinstance(value, dict):
            raise Invalid(((), f"must be {self.accepts}"))
        if len(value) > MOST_HEADERS:
            raise Invalid(((), f"has {len(value)} entries: at most {MOST_HEADERS} are allowed"))
        faults = list(_header_faults(value))
        if faults:
            raise Invalid(*faults)
        return dict(value)


class SecretFile(msgspec.Struct, frozen=True):
    """A file that holds a secret."""

    @property
    def accepts(self) -> str:
        return 'the path of a file that holds the secret, such as "notify.secret"'

    def read(self, value: object, base: Path) -> Path:
        if isinstance(value, str) and value.startswith(PREFIX):
            raise Invalid(((), "is the secret itself: write it to a file, and its path here"))
        # What is wrong here may be a secret all the same.
        if not isinstance(value, str) or not value or "\0" in value or value.startswith("~"):
            raise Invalid(((), f'must be {self.accepts}; "~" is not expanded'))
        return Path(os.path.abspath(base / value))


class Credential(msgspec.Struct, frozen=True):
    """A credential that systemd hands to the daemon."""

    @property
    def accepts(self) -> str:
        return "the name of a systemd credential that holds the secret"

    def read(self, value: object, base: Path) -> str:
        if isinstance(value, str) and value.startswith(PREFIX):
            raise Invalid(((), "is the secret itself: name the credential that holds it"))
        if not isinstance(value, str) or not _CREDENTIAL.fullmatch(value):
            raise Invalid(((), f'must be {self.accepts}, without spaces, "/" and ":"'))
        return value


class OneOrMore(msgspec.Struct, frozen=True):
    """A single value, or a list of such values."""

    one: Kind

    @property
    def accepts(self) -> str:
        return f"{self.one.accepts}, or a list: first the one in use, then those it replaces"

    def read(self, value: object, base: Path) -> tuple[Any, ...]:
        if not isinstance(value, list):
            return (self.one.read(value, base),)
        if len(value) > MOST_SECRETS:
            raise Invalid(((), f"has {len(value)} entries: at most {MOST_SECRETS} are allowed"))
        items = items_of(self, value, least=1)
        return tuple(read_each(items, lambda item: self.one.read(item, base)))


def _host(item: object) -> str:
    if not isinstance(item, str):
        raise Invalid(((), f"must be a host in quotes, not {show(item)}"))
    try:
        return read_host(item)
    except ValueError as error:
        raise Invalid(((), f"{quoted(item)} {error}")) from None


def _header_faults(headers: dict[str, object]) -> Iterator[tuple[Keys, str]]:
    seen: set[str] = set()
    for name, text in headers.items():
        fault = _name_fault(name, seen) or _text_fault(text)
        if fault:
            yield (name,), fault
        seen.add(name.lower())


def _name_fault(name: str, seen: set[str]) -> str | None:
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        return "is not the name of a header: it is made of letters, digits and -"
    if lower in SENT_BY_DAEMON or lower.startswith(SENT_PREFIXES):
        return "is set by jobqueued for every request: choose another name"
    return "is there twice: upper and lower case are the same" if lower in seen else None


def _text_fault(text: object) -> str | None:
    if not isinstance(text, str):
        return "must be text in quotes"
    if len(text) > LONGEST_HEADER:
        return f"is longer than {LONGEST_HEADER} characters"
    if not _TEXT.fullmatch(text):
        return "must be ASCII text on one line, not empty, without spaces around it"
    return None
