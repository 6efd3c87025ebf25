"""The errors of jobqueued; each docstring says what went wrong, the message says what to do."""

from __future__ import annotations


class JobqueuedError(Exception):
    """Something jobqueued itself noticed."""

    exit_code = 1


class ConfigError(JobqueuedError):
    """The configuration is not valid."""

    exit_code = 78


class StoreError(JobqueuedError):
    """The store did not do what was asked."""

    exit_code = 74


class StoreUnavailable(StoreError):
    """The store is closed or failed; whether the last write is on disk shows after a restart."""


class DiskFull(StoreError):
    """There is no space left on the disk; nothing was written."""


class StoreLocked(StoreError):
    """Another program holds the database for writing; nothing was written."""


class DamagedDatabase(StoreError):
    """The database file is damaged or not ours."""

    exit_code = 65


class NewerDatabase(DamagedDatabase):
    """The database was written by a newer jobqueued."""


class StoreBusy(StoreError):
    """Another daemon holds the database."""

    exit_code = 75


class Refused(JobqueuedError):
    """A request that cannot be granted; `code` is stable, the message is for people."""

    code = "refused"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotFound(Refused):
    """There is no such thing, or not for this caller."""

    code = "not_found"


class Conflict(Refused):
    """The job is not in a state that allows this."""

    code = "conflict"


class NotDead(Conflict):
    """Only dead jobs can be replayed or discarded."""

    code = "not_dead"


class TypeGone(Conflict):
    """The job's type is no longer configured."""

    code = "type_gone"


class ConfirmNeeded(Conflict):
    """Jobs of this type are replayed only when the caller says that it is meant."""

    code = "confirm_needed"


class KeyTaken(Conflict):
    """A newer job has the idempotency key by now."""

    code = "idempotency_key_taken"


class UnknownType(Refused):
    """No job type of that name is configured."""

    code = "unknown_type"


class KeyReused(Refused):
    """The idempotency key belongs to a job of another type or payload."""

    code = "idempotency_key_reused"

    def __init__(self, detail: str, faults: tuple[tuple[str, str], ...]) -> None:
        super().__init__(detail)
        self.faults = faults
        """Every field with such a key, and what to say about it."""


class Draining(Refused):
    """The daemon is shutting down and takes no more jobs."""

    code = "shutting_down"


class QueueFull(Refused):
    """Too many jobs are waiting."""

    code = "queue_full"

    def __init__(self, detail: str, retry_after: int) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
