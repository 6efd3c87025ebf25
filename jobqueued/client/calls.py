"""Every call of the API as a value: what to send, whether it may be sent twice, how to read it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Required, TypedDict, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from jobqueued.client.daemon import dead_path, job_path, type_path
from jobqueued.client.errors import ClientError
from jobqueued.client.models import (
    Batch,
    DeadJob,
    History,
    Job,
    JobPage,
    NewBatch,
    Replayed,
    Type,
    Types,
    TypeWhy,
    Why,
)

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds the daemon holds one answer back at most."""
PAGE = 500

_encode_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Options(TypedDict, total=False):
    """What a submission may say beside type and payload. Durations are seconds."""

    priority: int
    max_retries: int
    delay: float
    run_at: datetime | str
    expires_in: float
    expires_at: datetime | str
    idempotency_key: str
    correlation_id: str
    key: str


class NewJob(Options, total=False):
    """One job of many."""

    type: Required[str]
    payload: Any


class Filters(TypedDict, total=False):
    """Which jobs to list."""

    status: str | Sequence[str]
    type: str
    batch_id: str
    correlation_id: str
    idempotency_key: str
    key: str
    created_after: datetime | str
    created_before: datetime | str


class ReplayOptions(TypedDict, total=False):
    """What a replay of many may say beside their type; `cursor` is an earlier `next_cursor`."""

    limit: int
    cursor: str | None
    delay_seconds: float
    pace_per_second: float
    note: str
    confirm: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One exchange. `repeatable` when a second time changes nothing that the first did not."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    repeatable: bool = True


def submit(job: NewJob, wait: float) -> Call[Job]:
    """Submit one job."""
    wait = min(wait, LONGEST_WAIT)
    return Call("POST", _path("/jobs", _wait(wait)), _job, encoded(_fields(job)), wait)


def submit_batch(jobs: Sequence[NewJob], pace_per_second: float | None) -> Call[NewBatch]:
    """Submit many jobs, all or nothing."""
    body: dict[str, Any] = {"jobs": [_fields(job) for job in jobs]}
    if pace_per_second is not None:
        body["pace_per_second"] = pace_per_second
    return Call("POST", "/jobs/batch", reader(NewBatch), encoded(body))


def get(job_id: str, wait: float = 0.0) -> Call[Job]:
    """One job, at once or when it is terminal."""
    wait = min(wait, LONGEST_WAIT)
    return Call("GET", _path(job_path(job_id), _wait(wait)), _job, wait=wait)


def jobs(filters: Filters, cursor: str | None) -> Call[JobPage]:
    """One page of jobs, newest first."""
    query: list[tuple[str, str]] = []
    for name, value in filters.items():
        if name not in Filters.__annotations__:
            raise TypeError(f"jobs cannot be filtered by {name!r}")
        several = value if isinstance(value, list | tuple | set | frozenset) else [value]
        query += [(name, _text(one)) for one in several]
    query.append(("limit", str(PAGE)))
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("GET", _path("/jobs", query), reader(JobPage))


def act(job_id: str, action: str) -> Call[Job]:
    """Cancel a job, or run it now."""
    return Call("POST", job_path(job_id, action), _job, repeatable=False)


def history(job_id: str) -> Call[History]:
    """Every attempt of a job, and what people did to it."""
    return Call("GET", job_path(job_id, "attempts"), reader(History))


def dead_jobs(kind: str | None, cursor: str | None) -> Call[JobPage]:
    """One page of dead jobs, newest first."""
    query = [("limit", str(PAGE))]
    query += [("type", kind)] if kind is not None else []
    query += [("cursor", cursor)] if cursor is not None else []
    return Call("GET", _path("/dlq", query), reader(JobPage))


def dead_job(job_id: str) -> Call[DeadJob]:
    """One dead job with its history."""
    return Call("GET", dead_path(job_id), reader(DeadJob))


def replay(job_id: str, fields: Mapping[str, Any]) -> Call[Job]:
    """Run a dead job again."""
    body = encoded(_given(fields))
    return Call("POST", dead_path(job_id, "replay"), _job, body, repeatable=False)


def replay_many(fields: Mapping[str, Any]) -> Call[Replayed]:
    """Run many dead jobs of a type again."""
    body = encoded(_given(fields))
    return Call("POST", "/dlq/replay", reader(Replayed), body, repeatable=False)


def discard(job_id: str, note: str) -> Call[Job]:
    """Give a dead job up."""
    body = encoded({"note": note})
    return Call("POST", dead_path(job_id, "discard"), _job, body, repeatable=False)


def logs(job_id: str, attempt: int | None, follow: bool) -> Call[bytes]:
    """The output of a job."""
    query = [("attempt", str(attempt))] if attempt is not None else []
    query += [("follow", "1")] if follow else []
    return Call("GET", _path(job_path(job_id, "logs"), query), bytes)


def batch(batch_id: str) -> Call[Batch]:
    """How far a batch is."""
    return Call("GET", f"/batches/{quote(batch_id, safe='')}", reader(Batch))


def types() -> Call[list[Type]]:
    """Every type."""
    read = reader(Types)
    return Call("GET", "/types", lambda body: read(body).types)


def why(job_id: str) -> Call[Why]:
    """Why a job is not running."""
    return Call("GET", job_path(job_id, "why"), reader(Why))


def why_type(job_type: str) -> Call[TypeWhy]:
    """What the waiting jobs of a type wait for."""
    return Call("GET", type_path(job_type, "why"), reader(TypeWhy))


def pause(job_type: str, note: str | None) -> Call[Type]:
    """Start no more jobs of a type."""
    body = encoded({} if note is None else {"note": note})
    return Call("POST", type_path(job_type, "pause"), reader(Type), body)


def resume(job_type: str) -> Call[Type]:
    """Start jobs of a type again."""
    return Call("POST", type_path(job_type, "resume"), reader(Type))


def stats() -> Call[dict[str, Any]]:
    """What the daemon is doing."""
    return Call("GET", "/stats", reader(dict[str, Any]))


def encoded(value: Any) -> bytes:
    """A Python value as JSON; what JSON cannot say is an error and never changed silently."""
    return _encode_text(value).encode()


def with_key(job: NewJob) -> NewJob:
    """The job with an idempotency key, so that it can be sent again."""
    return job if job.get("idempotency_key") else {**job, "idempotency_key": uuid.uuid4().hex}


def put_off(job: NewJob, seconds: float) -> NewJob:
    """The job, due so much later."""
    run_at = job.get("run_at")
    if seconds <= 0:
        return job
    if run_at is None:
        return {**job, "delay": (job.get("delay") or 0.0) + seconds}
    moment = datetime.fromisoformat(run_at) if isinstance(run_at, str) else run_at
    return {**job, "run_at": max(moment, datetime.now(UTC)) + timedelta(seconds=seconds)}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_NAMES = {"delay": "delay_seconds", "expires_in": "expires_in_seconds"}
_KNOWN = NewJob.__annotations__.keys()


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = given.keys() - _KNOWN
    if unknown:
        raise TypeError(f"a job has no option {min(unknown)!r}")
    return {
        _NAMES.get(name, name): _text(value) if isinstance(value, datetime) else value
        for name, value in given.items()
        if value is not None
    }


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: use datetime.now(UTC) and the like")
        return value.isoformat()
    return str(value)


def _path(path: str, query: Sequence[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _wait(seconds: float) -> list[tuple[str, str]]:
    return [("wait", f"{seconds:.3f}")] if seconds > 0 else []


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """A function that reads an answer of this kind."""
    decoder = msgspec.json.Decoder(kind)

    def read(body: bytes) -> T:
        try:
            return decoder.decode(body)
        except ValueError as error:
            raise ClientError(f"what answers is not jobqueued: {error}") from error

    return read


_job = reader(Job)
