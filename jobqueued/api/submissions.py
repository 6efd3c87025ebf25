"""Submissions: JSON to the model, every fault named."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from jobqueued.api.fields import (
    LABEL_TEXT,
    LONGEST_TIME_MS,
    LONGEST_TIME_SECONDS,
    MOMENT_TEXT,
    NOT_SENT,
    Faults,
    Fields,
    Label,
    Moment,
    field,
    milliseconds,
    read_fields,
    read_list,
    read_object,
    unknown_name,
    verbatim,
)
from jobqueued.api.payloads import DEFAULT_PAYLOAD, check_payload, is_plain_payload
from jobqueued.clock import monotonic
from jobqueued.config import Config
from jobqueued.model.job import MAX_PRIORITY, MAX_RETRIES
from jobqueued.model.submission import Submission

_LONGEST_SECONDS = 0.02
"""How long the jobs of a batch are read without a break."""

Seconds = Annotated[float, Meta(ge=0, le=LONGEST_TIME_SECONDS)]
SomeSeconds = Annotated[float, Meta(gt=0, le=LONGEST_TIME_SECONDS)]

SUBMISSION = Fields(
    {
        "type": field(
            str, "must be the name of a job type", "A configured job type", required=True
        ),
        "payload": verbatim("Any JSON value, handed to the handler as it is", default={}),
        "priority": field(
            Annotated[int, Meta(ge=0, le=MAX_PRIORITY)],
            f"must be a whole number from 0 (last) to {MAX_PRIORITY} (first)",
            "0 runs last, 9 first; left out, the type's own",
        ),
        "max_retries": field(
            Annotated[int, Meta(ge=0, le=MAX_RETRIES)],
            f"must be a whole number from 0 to {MAX_RETRIES}",
            "Failures after the first that the job may have; left out, the type's own",
        ),
        "delay_seconds": field(
            Seconds, "must be a number of seconds from 0 to ten years", "Run this much later"
        ),
        "run_at": field(Moment, MOMENT_TEXT, "Run then instead; a time that has passed means now"),
        "expires_in_seconds": field(
            SomeSeconds,
            "must be a number of seconds above 0, at most ten years",
            "Give up when it has not started by then",
        ),
        "expires_at": field(Moment, MOMENT_TEXT, "The same as a time"),
        "idempotency_key": field(
            Label, LABEL_TEXT, "The same key again answers with the job it made the first time"
        ),
        "correlation_id": field(Label, LABEL_TEXT, "Free text to search by"),
        "key": field(Label, LABEL_TEXT, "Free text that groups jobs"),
    }
)

BATCH = Fields(
    {
        "jobs": verbatim("The jobs, all stored or none", required=True),
        "pace_per_second": field(
            Annotated[float, Meta(gt=0, le=1_000_000)],
            "must be a number above 0, at most 1000000",
            "Spread the jobs: so many become due each second",
        ),
    }
)

_TIMES = frozenset({"delay_seconds", "run_at", "expires_in_seconds", "expires_at"})


def parse_submission(body: bytes, header_key: list[str], config: Config, now: int) -> Submission:
    """One job; `header_key` is every Idempotency-Key header that was sent."""
    plain = _plain_submission(body, config) if not header_key else None
    if plain is not None:
        return plain
    faults = Faults()
    values = _read_job(read_object(body), config, now, faults, "")
    if header_key:
        _take_header_key(values, header_key, faults)
    faults.raise_any()
    return _submission(values)


def _plain_submission(body: bytes, config: Config) -> Submission | None:
    """A job without fault and without times, as most are; None sends it the careful way."""
    found = SUBMISSION.read_whole(body)
    if found is None or found.type not in config.types or any(map(found.__getattribute__, _TIMES)):
        return None
    payload = DEFAULT_PAYLOAD if found.payload == NOT_SENT else bytes(found.payload)
    if not is_plain_payload(payload, found.type, config):
        return None
    return Submission(
        type=found.type, payload=payload, priority=found.priority,
        max_retries=found.max_retries, idempotency_key=found.idempotency_key,
        correlation_id=found.correlation_id, key=found.key,
    )  # fmt: skip


async def parse_batch(
    body: bytes, header_key: list[str], config: Config, now: int
) -> tuple[list[Submission], float | None]:
    """Many jobs and their pace."""
    faults = Faults()
    values = read_fields(read_object(body), BATCH, faults)
    if header_key:
        faults.add("Idempotency-Key", "means one job: give each job its own idempotency_key")
    jobs = await _read_jobs(values, config, now, faults)
    pace: float | None = values.get("pace_per_second")
    if pace is not None and len(jobs) / pace > LONGEST_TIME_SECONDS:
        faults.add("pace_per_second", "would spread these jobs over more than ten years")
    faults.raise_any()
    return [_submission(job) for job in jobs], pace


async def _read_jobs(
    values: dict[str, Any], config: Config, now: int, faults: Faults
) -> list[dict[str, Any]]:
    if "jobs" not in values:
        return []
    jobs, began = [], monotonic()
    for where, entry in read_list(Raw(values["jobs"]), config.queue.max_batch, "jobs", faults):
        jobs.append(_read_job(entry, config, now, faults, where))
        if monotonic() - began > _LONGEST_SECONDS:
            # Payloads may take their time; in between it is everybody else's turn.
            await asyncio.sleep(0)
            began = monotonic()
    return jobs


def _read_job(
    given: dict[str, Raw], config: Config, now: int, faults: Faults, where: str
) -> dict[str, Any]:
    values = read_fields(given, SUBMISSION, faults, where)
    if "type" in values and values["type"] not in config.types:
        message = unknown_name("job type", values["type"], config.types, faults.are_few)
        faults.add(f"{where}type", message, "unknown_type")
    payload = values.get("payload", DEFAULT_PAYLOAD)
    check_payload(payload, values.get("type", ""), config, faults, where)
    if not _TIMES.isdisjoint(values):
        _check_times(values, now, faults, where)
    return values


def _check_times(values: dict[str, Any], now: int, faults: Faults, where: str) -> None:
    """Replace moments by milliseconds; at most one way to say each, and in order."""
    start = _one_time(values, "delay_seconds", "run_at", now, faults, where)
    end = _one_time(values, "expires_in_seconds", "expires_at", now, faults, where)
    if end is not None and end <= max(now, start or now):
        name = "expires_at" if "expires_at" in values else "expires_in_seconds"
        faults.add(where + name, "must be later than the time the job may run")
    if start is not None and start <= now:
        values.pop("run_at", None)


def _one_time(
    values: dict[str, Any], duration: str, moment: str, now: int, faults: Faults, where: str
) -> int | None:
    if duration in values and moment in values:
        faults.add(where + moment, f"cannot be given together with {duration}")
        return None
    if moment in values:
        at = milliseconds(values[moment])
        values[moment] = at
        if at > now + LONGEST_TIME_MS:
            faults.add(where + moment, "is more than ten years away")
        return at
    if duration in values:
        # A duration that was given is never rounded down to none.
        seconds: float = values[duration]
        delay = max(round(seconds * 1000), int(seconds > 0))
        values[duration] = delay
        return now + delay
    return None


def _take_header_key(values: dict[str, Any], header: list[str], faults: Faults) -> None:
    keys = {*header, values.get("idempotency_key", header[0])}
    if len(keys) > 1:
        faults.add("idempotency_key", "differs from the Idempotency-Key header")
        return
    values["idempotency_key"] = key = header[0]
    if not _is_label(key):
        faults.add("Idempotency-Key", LABEL_TEXT)


def _is_label(text: str) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(text), type=Label)
    except ValueError:
        return False
    return True


def _submission(values: dict[str, Any]) -> Submission:
    take = values.get
    return Submission(
        type=values["type"],
        payload=take("payload", DEFAULT_PAYLOAD),
        priority=take("priority"),
        max_retries=take("max_retries"),
        delay=take("delay_seconds"),
        run_at=take("run_at"),
        expires_in=take("expires_in_seconds"),
        expires_at=take("expires_at"),
        idempotency_key=take("idempotency_key"),
        correlation_id=take("correlation_id"),
        key=take("key"),
    )
