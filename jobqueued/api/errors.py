"""Refusals as RFC 9457 problem documents; the one place that words and numbers them."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from jobqueued.api.answers import Answer
from jobqueued.model import errors

PROBLEM_JSON = "application/problem+json"
PROBLEM_TYPE = "urn:jobqueued:problem:"
RETRY_SECONDS = 5
"""When to come back after a restart or a store that failed."""
DISK_RETRY_SECONDS = 30


class FieldFault(msgspec.Struct, frozen=True):
    """One field of a request and what is wrong with it."""

    field: str
    message: str


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """The body of every answer that is not a success."""

    kind: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[FieldFault] = []


class Problem(Exception):
    """A request that is answered with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        faults: list[FieldFault] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        closes: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.faults = faults or []
        self.headers = headers
        self.closes = closes

    def answer(self, request_id: str) -> Answer:
        """The problem as it is sent."""
        document = ProblemDocument(
            kind=PROBLEM_TYPE + self.code,
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            code=self.code,
            request_id=request_id,
            errors=self.faults,
        )
        return Answer(
            self.status,
            _encode(document),
            PROBLEM_JSON,
            (*self.headers, ("X-Request-Id", request_id)),
            closes=self.closes,
        )


_encode = msgspec.json.Encoder().encode

_REFUSALS: dict[type[errors.Refused], int] = {
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.UnknownType: 400,
    errors.KeyReused: 422,
    errors.QueueFull: 429,
    errors.Draining: 503,
}


def problem_of(error: Exception) -> Problem:
    """The problem to answer an error with; a bare 500 for what nobody foresaw."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.Refused):
        return _refusal(error)
    if isinstance(error, errors.DiskFull):
        return _later("disk_full", "The disk is full: nothing was stored.", DISK_RETRY_SECONDS)
    if isinstance(error, errors.StoreLocked):
        text = "Another program holds the database for writing: nothing was stored."
        return _later("store_locked", text, RETRY_SECONDS)
    if isinstance(error, MemoryError):
        text = "The daemon is short of memory. Send it again with the same idempotency key."
        return _later("out_of_memory", text, RETRY_SECONDS)
    if isinstance(error, errors.StoreError):
        return _later(
            "store_unavailable",
            "The store is not available. Whether this request took effect shows after the daemon"
            " is back: send it again with the same idempotency key.",
            RETRY_SECONDS,
        )
    return Problem(
        500, "internal_error", "The daemon made a mistake; its log has more.", closes=True
    )


def _refusal(error: errors.Refused) -> Problem:
    status = next((_REFUSALS[kind] for kind in type(error).__mro__ if kind in _REFUSALS), 400)
    named = error.faults if isinstance(error, errors.KeyReused) else ()
    faults = [FieldFault(field, message) for field, message in named]
    return Problem(status, error.code, error.detail, faults=faults, headers=_retry_after(error))


def _retry_after(error: errors.Refused) -> tuple[tuple[str, str], ...]:
    if isinstance(error, errors.QueueFull):
        return (("Retry-After", str(max(1, error.retry_after))),)
    if isinstance(error, errors.Draining):
        return (("Retry-After", str(RETRY_SECONDS)),)
    return ()


def _later(code: str, detail: str, seconds: int) -> Problem:
    return Problem(503, code, detail, headers=(("Retry-After", str(seconds)),))
