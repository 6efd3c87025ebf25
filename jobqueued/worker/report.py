"""What an attempt came to, as it is sent."""

from __future__ import annotations

import os
import traceback
from typing import Any

import msgspec
from msgspec import Raw

from jobqueued.client.calls import encoded
from jobqueued.model.handler_errors import Fatal, Retry
from jobqueued.model.job import MAX_ERROR, MAX_RESULT


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `POST /leases/settle`."""

    token: str
    outcome: str
    result: Raw | None = None
    error: str | None = None
    retry_after_seconds: float | None = None


def completed(token: str, value: Any) -> Report:
    """The handler returned; `Raw` is taken as the JSON it is."""
    if value is None:
        return Report(token, "completed")
    try:
        result = value if isinstance(value, Raw) else Raw(encoded(value))
    except (TypeError, ValueError, RecursionError) as error:
        return fatal(token, f"the return value of the handler is not JSON: {error}")
    if len(bytes(result)) > MAX_RESULT:
        return fatal(token, f"the result is larger than {MAX_RESULT // 1024}KiB")
    return Report(token, "completed", result)


def failed(token: str, error: BaseException) -> Report:
    """The handler raised."""
    if isinstance(error, Retry):
        return retry(token, str(error) or "asked to be run again", error.after)
    if isinstance(error, Fatal):
        return fatal(token, str(error) or "Fatal")
    return retry(token, _text(error))


def retry(token: str, text: str, after: float | None = None) -> Report:
    """To be run again: after so many seconds, or after the type's backoff."""
    return Report(token, "retry", error=_sendable(text), retry_after_seconds=after)


def released(token: str, text: str) -> Report:
    """Given back unfinished."""
    return Report(token, "released", error=_sendable(text))


def fatal(token: str, text: str) -> Report:
    """Not to be run again."""
    return Report(token, "fatal", error=_sendable(text))


def _text(error: BaseException) -> str:
    """What happened, where, and how the handler got there."""
    whole = "".join(traceback.format_exception(error)).rstrip()
    frames = traceback.extract_tb(error.__traceback__)
    last = traceback.format_exception_only(error)[-1].strip()
    if not frames:
        return last
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"
    return f"{last} ({place})\n{whole}"


def _sendable(text: str) -> str:
    """Within bounds, and nothing that UTF-8 cannot say."""
    return text[:MAX_ERROR].encode(errors="replace").decode()
