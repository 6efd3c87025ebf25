"""Runs jobs of a daemon in another process, on this machine or another one."""

from __future__ import annotations

from jobqueued.model.handler_errors import Fatal, Retry
from jobqueued.worker.context import Context, Stopped
from jobqueued.worker.worker import Worker

__all__ = ["Context", "Fatal", "Retry", "Stopped", "Worker"]
