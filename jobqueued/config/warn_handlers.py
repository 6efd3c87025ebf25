"""What a handler is going to miss on this machine, or does less safely than it could."""

from __future__ import annotations

import os
import pwd
import shutil
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from jobqueued.config.faults import Keys, quoted
from jobqueued.config.hosts import is_loopback
from jobqueued.model.job_type import CommandHandler, Handler, HttpHandler, PythonHandler

LONGEST_PATH = 4096
SHORTEST_SECRET = 24
"""Bytes that Standard Webhooks asks for, at the least."""

Problem = tuple[Keys, str]
"""Where in the type, and what is the matter."""


def handler_problems(handler: Handler) -> Iterator[Problem]:
    """Everything that is worth a second look."""
    if isinstance(handler, CommandHandler):
        yield from _missing_program("command", handler.argv[0], handler)
        yield from _process_problems(handler)
    elif isinstance(handler, PythonHandler):
        yield from _python_problems(handler)
        yield from _process_problems(handler)
    elif isinstance(handler, HttpHandler):
        yield from _http_problems(handler)


def _process_problems(handler: CommandHandler | PythonHandler) -> Iterator[Problem]:
    if handler.cwd is not None and not os.path.isdir(handler.cwd):
        yield ("cwd",), f"{quoted(handler.cwd, LONGEST_PATH)} is not a directory"
    if handler.user is not None:
        yield from _user_problems(handler.user)


def _python_problems(handler: PythonHandler) -> Iterator[Problem]:
    for index, directory in enumerate(handler.python_path):
        if not os.path.isdir(directory):
            shown = quoted(directory, LONGEST_PATH)
            yield ("python_path", index), f"{shown} is not a directory"
    if handler.interpreter is not None:
        yield from _missing_program("interpreter", handler.interpreter, handler)


def _http_problems(handler: HttpHandler) -> Iterator[Problem]:
    parts = urlsplit(handler.url or "")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield ("http", "url"), "what is sent can be read and changed on its way: use https"
    if handler.ca_file is not None:
        if parts.scheme == "http":
            yield ("http", "ca_file"), "is never used, because url does not start with https"
        yield from _ca_problems(handler.ca_file)
    if any(len(secret) < SHORTEST_SECRET for secret in handler.secrets):
        fix = "make one with `openssl rand -base64 32`"
        yield ("http",), f"a secret of fewer than {SHORTEST_SECRET} bytes can be guessed: {fix}"


def _ca_problems(file: str) -> Iterator[Problem]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        yield ("http", "ca_file"), f"{quoted(file, LONGEST_PATH)} holds no certificates (PEM)"
    except OSError as error:
        shown = quoted(file, LONGEST_PATH)
        yield ("http", "ca_file"), f"{shown} cannot be read: {error.strerror}"


def _missing_program(
    key: str, program: str, handler: CommandHandler | PythonHandler
) -> Iterator[Problem]:
    if shutil.which(program, path=_search_path(handler)) is None:
        yield (key,), f"{quoted(program, LONGEST_PATH)} is not there or not executable"


def _search_path(handler: CommandHandler | PythonHandler) -> str:
    """Where a bare name is looked for: the daemon's own directory is searched too."""
    path = handler.env.get("PATH", os.environ.get("PATH", os.defpath))
    return os.pathsep.join([path, str(Path(sys.executable).parent)])


def _user_problems(user: str) -> Iterator[Problem]:
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        yield ("user",), f"there is no user {quoted(user)} on this machine"
        return
    if os.geteuid() not in (0, account.pw_uid):
        yield ("user",), f"only a daemon that runs as root can run jobs as {quoted(user)}"
