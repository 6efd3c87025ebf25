"""A daemon to ask: one short HTTP exchange a call, blocking."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jobqueued.client.address import Address
from jobqueued.client.errors import BadAddress, ClientError, NotConnected, Unreachable, problem_from

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
CHUNK = 64 * 1024

Query = Sequence[tuple[str, str]]


class Answer(NamedTuple):
    """What the daemon said; `body` is kept as it came, so that no digit of a payload is lost."""

    status: int
    body: bytes
    headers: Message
    address: Address

    def document(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ClientError(f"what answers at {self.address} is not jobqueued") from error


class Daemon:
    """The first daemon that accepts a connection at one of `addresses`."""

    def __init__(self, addresses: Sequence[Address], key: str | None = None) -> None:
        self.addresses = list(addresses)
        self.reached_at: float | None = None
        """When it was last there, on the monotonic clock."""
        self._headers = {"Connection": "close", "Accept": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key.strip()}"

    def get(self, path: str, query: Query = (), wait: float = 0.0) -> Answer:
        """Read; `wait` is how long the daemon may hold the answer back."""
        return self._call("GET", path, query, None, wait)

    def post(
        self, path: str, body: bytes | None = None, query: Query = (), wait: float = 0.0
    ) -> Answer:
        """Act; the body is JSON."""
        return self._call("POST", path, query, body, wait)

    def stream(self, path: str, query: Query = ()) -> Iterator[bytes]:
        """Yield the answer as it comes, for as long as it takes."""
        with self._exchange("GET", path, query, None, None) as (response, _):
            while chunk := response.read1(CHUNK):
                yield chunk

    def _call(
        self, method: str, path: str, query: Query, body: bytes | None, wait: float
    ) -> Answer:
        with self._exchange(method, path, query, body, ANSWER_SECONDS + wait) as exchanged:
            response, address = exchanged
            return Answer(response.status, response.read(), response.headers, address)

    @contextmanager
    def _exchange(
        self, method: str, path: str, query: Query, body: bytes | None, seconds: float | None
    ) -> Iterator[tuple[HTTPResponse, Address]]:
        connection, address = self._connect()
        try:
            connection.sock.settimeout(seconds)
            _send(connection, method, _target(path, query), body, self._headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem(response)
            yield response, address
        except TimeoutError as error:
            raise Unreachable(f"the daemon at {address} did not answer in time") from error
        except (ConnectionError, HTTPException) as error:
            raise Unreachable(f"the daemon at {address} broke off: {_reason(error)}") from error
        finally:
            self.reached_at = time.monotonic()
            connection.close()

    def _connect(self) -> tuple[HTTPConnection, Address]:
        """Connect to the first address that lets us, and stay with it."""
        tried = []
        for address in self.addresses:
            connection = _connection(address)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                tried.append(f"{address}: {_reason(error)}")
                continue
            self.addresses = [address]
            return connection, address
        raise NotConnected("no daemon answers (" + "; ".join(tried) + ")")


def job_path(job_id: str, action: str = "") -> str:
    """`/jobs/ID` or `/jobs/ID/ACTION`, whatever characters the id has."""
    return f"/jobs/{quote(job_id, safe='')}" + (f"/{action}" if action else "")


def type_path(name: str, action: str = "") -> str:
    """`/types/NAME` or `/types/NAME/ACTION`, whatever characters the name has."""
    return f"/types/{quote(name, safe='')}" + (f"/{action}" if action else "")


def dead_path(job_id: str, action: str = "") -> str:
    """The same among the dead jobs: `/dlq/ID` or `/dlq/ID/ACTION`."""
    return f"/dlq/{quote(job_id, safe='')}" + (f"/{action}" if action else "")


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CONNECT_SECONDS)
        self.sock.connect(self._path)


def _connection(address: Address) -> HTTPConnection:
    if address.path is not None:
        return _UnixConnection(address.path)
    return HTTPConnection(address.host, address.port, timeout=CONNECT_SECONDS)


def _target(path: str, query: Query) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _send(
    connection: HTTPConnection,
    method: str,
    target: str,
    body: bytes | None,
    headers: Mapping[str, str],
) -> None:
    content = {"Content-Type": "application/json"} if body is not None else {}
    try:
        connection.request(method, target, body, {**headers, **content})
    except ValueError as error:
        raise BadAddress("the key in $JOBQUEUED_KEY has characters no key has") from error


def _problem(response: HTTPResponse) -> ClientError:
    retry_after = response.headers.get("Retry-After")
    return problem_from(response.status, response.reason, response.read(), retry_after)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
