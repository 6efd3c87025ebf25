"""The configuration once it is checked and complete. Durations are milliseconds, sizes bytes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jobqueued.model.job_type import JobType


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API listens and how much it reads."""

    listen: tuple[str, ...]
    max_body: int


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where jobs are kept and how safely."""

    path: Path
    durability: str


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What intake accepts."""

    max_depth: int
    max_payload: int
    max_batch: int
    idempotency_window: int


class ShutdownSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long each stage of stopping may take."""

    drain_timeout: int
    kill_timeout: int


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long finished jobs are kept."""

    completed: int
    dead: int
    cancelled: int


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A group of workers that share their types."""

    workers: int
    max_share: float


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the configuration files say, with every default filled in."""

    server: ServerSettings
    store: StoreSettings
    queue: QueueSettings
    shutdown: ShutdownSettings
    retention: RetentionSettings
    pools: dict[str, PoolSettings]
    types: dict[str, JobType]
    files: tuple[Path, ...]
