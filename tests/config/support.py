"""The handler of a configured type, as the kind that a test expects."""

from __future__ import annotations

from typing import TypeVar

from jobqueued.config import Config
from jobqueued.model.job_type import CommandHandler, HttpHandler, PythonHandler

Kind = TypeVar("Kind", CommandHandler, HttpHandler, PythonHandler)


def command_of(config: Config, name: str) -> CommandHandler:
    return _handler(config, name, CommandHandler)


def http_of(config: Config, name: str) -> HttpHandler:
    return _handler(config, name, HttpHandler)


def python_of(config: Config, name: str) -> PythonHandler:
    return _handler(config, name, PythonHandler)


def _handler(config: Config, name: str, kind: type[Kind]) -> Kind:
    handler = config.types[name].handler
    assert isinstance(handler, kind)
    return handler
