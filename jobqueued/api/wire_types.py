"""Job types as JSON: how they are set up, what holds them, how they are doing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from jobqueued.api.wire import encode, time_or_none
from jobqueued.config import format_duration, format_rate
from jobqueued.engine.controls import TypeState
from jobqueued.model.control import Control
from jobqueued.model.job_type import JobType

_SETTINGS = (
    "kind", "pool", "max_running", "max_running_per_key", "rate", "timeout", "max_retries",
    "priority", "confirm_replay", "payload_schema",
)  # fmt: skip


class WirePause(msgspec.Struct):
    """Since when a type is paused, by whom and why."""

    since: str | None
    by: str | None
    note: str | None


class WireBreaker(msgspec.Struct):
    """`closed`, `open`, `probing` or `off`; `until` is when the next job is tried."""

    state: str
    since: str | None
    until: str | None
    reason: str | None


class WireDurations(msgspec.Struct):
    """How long the last attempts that completed ran."""

    count: int
    p50_ms: int | None
    p95_ms: int | None


class WireType(msgspec.Struct):
    """A type; settings are as in the configuration, null where there are none.

    `configured` is false for a type that has jobs but is gone from the configuration. `rates` are
    events per second over the last minute. `payload_schema` says whether there is one.
    """

    name: str
    configured: bool
    kind: str | None
    pool: str | None
    paused: WirePause | None
    counts: dict[str, int]
    running: int
    max_running: int | None
    max_running_per_key: int | None
    rate: str | None
    breaker: WireBreaker
    rates: dict[str, float]
    durations: WireDurations
    timeout: str | None
    max_retries: int | None
    priority: int | None
    confirm_replay: bool | None
    payload_schema: bool | None


class WireTypes(msgspec.Struct):
    """Types in the order of the alphabet."""

    types: list[WireType]


def type_json(state: TypeState) -> bytes:
    """One type."""
    return encode(_type(state))


def types_json(states: Iterable[TypeState]) -> bytes:
    """All types."""
    return encode(WireTypes([_type(state) for state in states]))


def _type(state: TypeState) -> WireType:
    durations = state.durations
    return WireType(
        name=state.name,
        configured=state.job_type is not None,
        paused=_pause(state.control),
        counts=state.counts,
        running=state.running,
        breaker=_breaker(state),
        rates=state.rates,
        durations=WireDurations(durations.count, durations.p50, durations.p95),
        **_settings(state.job_type),
    )


def _settings(job_type: JobType | None) -> dict[str, Any]:
    if job_type is None:
        return dict.fromkeys(_SETTINGS)
    rate = None if job_type.rate is None else format_rate(job_type.rate)
    of_type = (
        job_type.handler.kind, job_type.pool, job_type.max_running,
        job_type.max_running_per_key, rate, format_duration(job_type.timeout),
        job_type.max_retries, job_type.priority, job_type.confirm_replay,
        job_type.payload_schema is not None,
    )  # fmt: skip
    return dict(zip(_SETTINGS, of_type, strict=True))


def _pause(control: Control) -> WirePause | None:
    if control.paused_at is None:
        return None
    return WirePause(time_or_none(control.paused_at), control.paused_by, control.paused_note)


def _breaker(state: TypeState) -> WireBreaker:
    control, word = state.control, state.breaker
    if word == "off":
        return WireBreaker(word, None, None, None)
    since, until = time_or_none(control.breaker_since), time_or_none(control.breaker_probe_at)
    return WireBreaker(word, since, until, control.breaker_reason)
