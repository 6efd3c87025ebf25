"""Talks to a daemon over HTTP. What is exported here is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobqueued.client.blocking import BlockingClient
    from jobqueued.client.calls import NewJob
    from jobqueued.client.client import Client
    from jobqueued.client.errors import ClientError, Problem, Unreachable
    from jobqueued.client.models import (
        Attempt,
        Batch,
        Change,
        DeadJob,
        Job,
        NewBatch,
        Replayed,
        Type,
        TypeWhy,
        Why,
    )

__all__ = [
    "Attempt",
    "Batch",
    "BlockingClient",
    "Change",
    "Client",
    "ClientError",
    "DeadJob",
    "Job",
    "NewBatch",
    "NewJob",
    "Problem",
    "Replayed",
    "Type",
    "TypeWhy",
    "Unreachable",
    "Why",
]

_HOMES = {
    "BlockingClient": "blocking",
    "Client": "client",
    "NewJob": "calls",
    "ClientError": "errors",
    "Problem": "errors",
    "Unreachable": "errors",
}


def __getattr__(name: str) -> object:
    """Small commands start fast because of this: most need no more than one blocking call."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'models')}"), name)
