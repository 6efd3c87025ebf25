"""Why there was no answer, in words that hold no secrets."""

from __future__ import annotations

import os
import ssl

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientOSError,
    ClientResponseError,
    ConnectionTimeoutError,
    ServerDisconnectedError,
)
from yarl import URL

from jobqueued.executors.exits import duration_text
from jobqueued.executors.http_answer import readable
from jobqueued.executors.http_guard import ForbiddenAddress
from jobqueued.model.job_type import HttpHandler

_MOST = 300


def is_forbidden(error: Exception) -> bool:
    """Whether a connection was refused by the guard, which no other try changes."""
    return isinstance(error, ClientConnectorError) and isinstance(error.os_error, ForbiddenAddress)


def connection_lost(error: Exception) -> bool:
    """Whether a connection that once stood was gone before there was an answer."""
    if isinstance(error, ClientConnectorError):
        return False
    return isinstance(error, ServerDisconnectedError | ClientOSError | ConnectionResetError)


def error_text(error: Exception, url: URL, handler: HttpHandler) -> str:
    """What went wrong; the texts of the errors themselves may show the whole address."""
    host = f"{url.host_subcomponent}:{url.port}"
    if isinstance(error, ConnectionTimeoutError):
        return f"cannot connect to {host} within {duration_text(handler.connect_timeout)}"
    if isinstance(error, ClientConnectorError | ClientConnectorCertificateError):
        return _not_connected(error, host)
    if isinstance(error, ClientResponseError):
        return f"{host} did not answer in HTTP: {_short(error.message)}"
    if isinstance(error, ServerDisconnectedError):
        return f"{host} closed the connection without an answer"
    return f"the connection to {host} broke: {_reason(error)}"


def _not_connected(error: ClientConnectorError | ClientConnectorCertificateError, host: str) -> str:
    if isinstance(error, ClientConnectorCertificateError):
        return f"the certificate of {host} is not trusted: {_reason(error.certificate_error)}"
    if isinstance(error.os_error, ForbiddenAddress):
        return f"{host}: {error.os_error.strerror}"
    if isinstance(error, ClientConnectorDNSError):
        return f"cannot find the address of {host}: {_reason(error.os_error)}"
    return f"cannot connect to {host}: {_reason(error.os_error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _short(error.verify_message)
    if isinstance(error, ssl.SSLError):
        return f"TLS error {_short(error.reason or 'without a name')}"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno) if error.errno > 0 else _short(error.strerror or "")
    return type(error).__name__


def _short(text: str) -> str:
    return " ".join(readable(text, _MOST).split())
