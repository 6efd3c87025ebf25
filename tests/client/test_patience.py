"""When a call is made again, and when it is not: the same for both clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobqueued.client import BlockingClient, Client, Problem, Unreachable
from tests.client.support import batch_answer, bodies, job_answer, problem_answer, targets

Act = Callable[[Any], Any]

CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


@pytest.fixture(params=["async", "blocking"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def call(kind: str, url: str, act: Act, patience: float = 20.0) -> Any:
    """What a call of one of the clients comes to."""
    if kind == "blocking":
        with BlockingClient(url, patience=patience) as client:
            return act(client)
    return asyncio.run(_call(url, act, patience))


async def _call(url: str, act: Act, patience: float) -> Any:
    async with Client(url, patience=patience) as client:
        return await act(client)


@pytest.mark.parametrize(
    "refusal",
    [
        problem_answer("503 Service Unavailable", "shutting_down", "Retry-After: 0"),
        problem_answer("503 Service Unavailable", "store_unavailable"),
        problem_answer("429 Too Many Requests", "queue_full", "Retry-After: 0"),
        CUT,
        b"",
    ],
    ids=["draining", "store", "full", "cut", "hung up"],
)
def test_a_submission_is_sent_again_with_its_key(server: Any, kind: str, refusal: bytes) -> None:
    server.answers += [refusal, refusal, job_answer(id="x")]
    job = call(kind, str(server.address), lambda client: client.submit("hello", {"a": 1}))
    assert job.id == "x"
    first, *others = bodies(server.requests)
    assert first["payload"] == {"a": 1}
    assert len(first["idempotency_key"]) == 32
    assert others == [first, first]


def test_an_own_key_is_kept(server: Any, kind: str) -> None:
    server.answers.append(job_answer())
    call(kind, str(server.address), lambda client: client.submit("a", idempotency_key="mine"))
    assert bodies(server.requests) == [{"type": "a", "idempotency_key": "mine"}]


@pytest.mark.parametrize("cut", [CUT, b""])
def test_an_action_is_not_repeated_when_it_may_have_been_done(
    server: Any, kind: str, cut: bytes
) -> None:
    server.answers += [cut, job_answer()]
    with pytest.raises(Unreachable, match="broke off"):
        call(kind, str(server.address), lambda client: client.cancel("x"))
    assert targets(server.requests) == ["POST /jobs/x/cancel"]


def test_an_action_of_unknown_effect_is_not_repeated(server: Any, kind: str) -> None:
    server.answers.append(problem_answer("503 Service Unavailable", "store_unavailable"))
    with pytest.raises(Problem, match="store_unavailable"):
        call(kind, str(server.address), lambda client: client.run("x"))
    assert len(server.requests) == 1


def test_an_action_that_was_not_done_is_repeated(server: Any, kind: str) -> None:
    busy = problem_answer("503 Service Unavailable", "shutting_down", "Retry-After: 0")
    server.answers += [busy, job_answer(status="cancelled")]
    job = call(kind, str(server.address), lambda client: client.cancel("x"))
    assert (job.status, len(server.requests)) == ("cancelled", 2)


def test_patience_is_shorter_than_the_daemon_asks_for(server: Any, kind: str) -> None:
    server.answers.append(problem_answer("429 Too Many Requests", "queue_full", "Retry-After: 60"))
    with pytest.raises(Problem) as caught:
        call(kind, str(server.address), lambda client: client.submit("hello"))
    assert (caught.value.status, caught.value.retry_after) == (429, "60")
    assert len(server.requests) == 1


def test_a_refusal_is_not_repeated_and_names_the_fields(server: Any, kind: str) -> None:
    errors = [{"field": "type", "message": "no job type"}]
    server.answers.append(problem_answer("400 Bad Request", "unknown_type", errors=errors))
    with pytest.raises(Problem) as caught:
        call(kind, str(server.address), lambda client: client.submit("helo"))
    assert (caught.value.code, caught.value.errors) == ("unknown_type", (("type", "no job type"),))


def test_nobody_there_is_told_after_the_patience(tmp_path: Path, kind: str) -> None:
    url = f"unix:{tmp_path}/missing.sock"
    with pytest.raises(Unreachable, match=r"missing\.sock: No such file"):
        call(kind, url, lambda client: client.stats(), patience=0.3)


def test_a_daemon_that_comes_later_is_found(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "late.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        timer = threading.Timer(0.3, _serve_once, (listener, path))
        timer.start()
        assert call(kind, f"unix:{path}", lambda client: client.get("x")).id == "0190-job"
        timer.join()


def _serve_once(listener: socket.socket, path: Path) -> None:
    listener.bind(str(path))
    listener.listen()
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(job_answer())


def test_batches_are_made_smaller_until_they_fit(server: Any, kind: str) -> None:
    too_many = [{"field": "jobs", "message": "must be a list of 1 to 2 objects, not 4"}]
    server.answers += [
        problem_answer("400 Bad Request", "invalid_request", errors=too_many),
        *(batch_answer(*pair) for pair in (("1", "2"), ("3", "4"), ("5",))),
    ]
    jobs = [{"type": "hello", "payload": number} for number in range(5)]
    ids = call(kind, str(server.address), lambda client: client.submit_many(jobs))
    assert ids == ["1", "2", "3", "4", "5"]
    sent = [[job["payload"] for job in body["jobs"]] for body in bodies(server.requests)]
    assert sent == [[0, 1, 2, 3, 4], [0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda client: client.submit("a", float("nan")), ValueError),
        (lambda client: client.submit("a", object()), TypeError),
        (lambda client: client.submit("a", prioritty=3), TypeError),
    ],
)
def test_what_cannot_be_sent_is_not_sent(server: Any, kind: str, act: Act, error: Any) -> None:
    with pytest.raises(error):
        call(kind, str(server.address), act)
    assert server.requests == []
