"""A durable job queue in one process and one file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobqueued.model.handler_errors import Fatal, Retry

__version__ = "0.1.0"
__all__ = ["Fatal", "Retry", "__version__"]


def __getattr__(name: str) -> object:
    """What is exported is loaded when it is first asked for."""
    if name not in {"Fatal", "Retry"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jobqueued.model import handler_errors

    return getattr(handler_errors, name)
