"""What can go wrong between a client and a daemon."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from jobqueued.model.errors import JobqueuedError


class ClientError(JobqueuedError):
    """A request that got no useful answer."""


class BadAddress(ClientError):
    """The address or the key cannot be used."""

    exit_code = 2


class Unreachable(ClientError):
    """The daemon does not answer, or no longer."""

    exit_code = 69


class NotConnected(Unreachable):
    """No daemon accepts a connection; nothing was sent."""


class FieldError(NamedTuple):
    """One field of a request and what is wrong with it."""

    field: str
    message: str


class Problem(ClientError):
    """The daemon refused the request and says why, in a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: tuple[FieldError, ...] = (),
        retry_after: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.retry_after = retry_after

    def counted_from(self, first: int) -> Problem:
        """The same about one batch of many jobs: so many were submitted before it."""
        errors = tuple(
            FieldError(_counted_from(first, each.field), each.message) for each in self.errors
        )
        detail = _counted_from(first, self.detail)
        return Problem(self.status, self.code, detail, errors, self.retry_after)

    def renamed(self, names: Mapping[str, str]) -> Problem:
        """The same with other names for the fields, also where a message speaks of one."""
        errors = tuple(
            FieldError(names.get(each.field, each.field), _reworded(each.message, names))
            for each in self.errors
        )
        return Problem(self.status, self.code, self.detail, errors, self.retry_after)


def problem_from(status: int, reason: str, body: bytes, retry_after: str | None) -> Problem:
    """Read a problem document; anything else becomes one with the bare HTTP status."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "detail" not in document:
        detail = f"the daemon answered {status} {reason}"
        return Problem(status, "http_status", detail, (), retry_after)
    return Problem(
        status,
        str(document.get("code", "")),
        str(document["detail"]),
        _field_errors(document.get("errors")),
        retry_after,
    )


def _counted_from(first: int, text: str) -> str:
    return re.sub(r"^jobs\[(\d+)\]", lambda place: f"jobs[{first + int(place[1])}]", text)


def _reworded(message: str, names: Mapping[str, str]) -> str:
    # A plain word such as "key" may mean itself.
    return re.sub(r"\w+_\w+", lambda word: names.get(word[0], word[0]), message)


def _field_errors(entries: object) -> tuple[FieldError, ...]:
    if not isinstance(entries, list):
        return ()
    return tuple(
        FieldError(str(entry.get("field", "")), str(entry.get("message", "")))
        for entry in entries
        if isinstance(entry, dict)
    )
