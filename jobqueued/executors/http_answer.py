"""How an answer to a webhook becomes the outcome of an attempt. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

import msgspec

from jobqueued.executors.exits import size_text
from jobqueued.model.job import MAX_ERROR, MAX_RESULT
from jobqueued.model.outcome import Outcome, OutcomeKind

RETRIED = frozenset({408, 425, 429})
RESTING = frozenset({429, 503})
"""With `Retry-After` these speak for the whole host, not for one job."""
SHOWN = 2048
QUOTED = 500
_SECONDS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body as far as it was read, and why that may not be all of it."""

    status: int
    reason: str = ""
    retry_after: str | None = None
    body: bytes = b""
    too_large: bool = False
    broken: bool = False

    @property
    def line(self) -> str:
        """`503 Service Unavailable`."""
        return f"{self.status} {readable(self.reason, 100)}".rstrip()

    @property
    def succeeded(self) -> bool:
        return is_success(self.status)


def is_success(status: int) -> bool:
    return 200 <= status < 300


def outcome_of_answer(answer: Answer, now: int) -> Outcome:
    """What an attempt came to, by what its receiver said."""
    if answer.succeeded and not answer.broken:
        result = None if answer.too_large else json_of(answer.body)
        return Outcome(kind=OutcomeKind.COMPLETED, result=result, http_status=answer.status)
    kind = OutcomeKind.FAILED if _worth_another_try(answer) else OutcomeKind.FATAL
    return Outcome(
        kind=kind,
        error=_error(answer)[:MAX_ERROR],
        http_status=answer.status,
        retry_after_ms=wait_asked_for(answer, now) if kind is OutcomeKind.FAILED else None,
    )


def wait_asked_for(answer: Answer, now: int) -> int | None:
    """Milliseconds from `Retry-After`, in either form; None when it asks for no wait."""
    text = (answer.retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return int(text) * 1000 or None
    try:
        moment = parsedate_to_datetime(text)
        until = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return until - now if until > now else None


def json_of(body: bytes) -> bytes | None:
    """The body without the white space around it, where it is JSON."""
    text = body.strip(b" \t\r\n")
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return text


def record_of(answer: Answer, outcome: Outcome) -> str:
    """The body for people: its beginning, and why it is not the result where it is not."""
    lines = [readable(answer.body[:SHOWN].decode(errors="replace"), SHOWN, keep="\n\t").strip()]
    if len(answer.body) > SHOWN:
        lines.append(f"[the first {SHOWN} bytes]")
    if outcome.kind is OutcomeKind.COMPLETED and answer.body and outcome.result is None:
        lines.append(f"[no result: {_why_no_result(answer)}]")
    return "".join(f"{line}\n" for line in lines if line)


def readable(text: str, most: int, keep: str = "") -> str:
    """The beginning of a text from outside, without what a terminal would obey."""
    kept = (c if c.isprintable() or c in keep else " " for c in text[:most])
    return "".join(kept)


def _worth_another_try(answer: Answer) -> bool:
    return answer.succeeded or answer.status in RETRIED or 500 <= answer.status < 600


def _error(answer: Answer) -> str:
    what = f"answered {answer.line}"
    if answer.succeeded:
        return f"{what}, then broke off after {len(answer.body)} bytes of the body"
    if 300 <= answer.status < 400:
        return f"{what}: redirects are not followed"
    said = " ".join(readable(answer.body.decode(errors="replace"), QUOTED).split())
    return f"{what}: {said}" if said else what


def _why_no_result(answer: Answer) -> str:
    if answer.too_large:
        return f"the body is larger than {size_text(MAX_RESULT)}"
    return "the body is not JSON"
