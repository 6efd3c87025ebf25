"""Webhooks to a real receiver: what it is sent, and what its answers come to."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from email.utils import formatdate

import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from jobqueued.executors.http import HttpExecutor
from jobqueued.model.job import MAX_ERROR, MAX_RESULT
from jobqueued.model.outcome import OutcomeKind
from jobqueued.model.webhook_secret import decode_secret
from tests.executors.http_support import Receiver, a_receiver, http_task

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def webhooks() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor()
    yield executor
    await executor.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with a_receiver() as running:
        yield running


async def test_the_payload_is_posted_as_it_is(webhooks: HttpExecutor, receiver: Receiver) -> None:
    payload = b'{"n": 123456789012345678901234567890,  "b":1.50, "t": "gr\xc3\xbc\xc3\x9fe"}'
    outcome = await webhooks.run(http_task(payload=payload, url=receiver.url("/a/b?c=%20d")))
    assert outcome.kind is OutcomeKind.COMPLETED
    assert (outcome.http_status, outcome.error, outcome.result) == (200, None, None)
    (request,) = receiver.requests
    assert (request.method, request.target, request.body) == ("POST", "/a/b?c=%20d", payload)


async def test_the_receiver_is_told_about_the_job(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    task = http_task(url=receiver.url(), headers={"X-Mine": "1", "content-type": "text/plain"})
    await webhooks.run(task)
    told = receiver.requests[0].headers
    assert told["webhook-id"] == task.claimed.lease.job_id
    assert abs(int(told["webhook-timestamp"]) - time.time()) < 60
    assert told["Jobqueued-Type"] == "sample"
    assert told["Jobqueued-Attempt"] == "3"
    assert told["User-Agent"] == "jobqueued"
    assert told["X-Mine"] == "1"
    assert told.getall("Content-Type") == ["application/json"]
    assert told["Accept-Encoding"] == "identity"
    assert "webhook-signature" not in told
    assert "traceparent" not in told


async def test_a_type_may_name_its_sender(webhooks: HttpExecutor, receiver: Receiver) -> None:
    await webhooks.run(http_task(url=receiver.url(), headers={"user-agent": "shop/2"}))
    assert receiver.requests[0].headers.getall("User-Agent") == ["shop/2"]


@pytest.mark.parametrize(
    ("correlation", "passed"),
    [
        (TRACE, True),
        ("order 7", False),
        (f"{TRACE}\n", False),
        (TRACE.upper(), False),
        (TRACE.replace("00-4", "ff-4"), False),
        (re.sub(r"-\w{32}-", f"-{'0' * 32}-", TRACE), False),
        (re.sub(r"-\w{16}-", f"-{'0' * 16}-", TRACE), False),
    ],
)
async def test_a_trace_is_passed_on(
    webhooks: HttpExecutor, receiver: Receiver, correlation: str, passed: bool
) -> None:
    await webhooks.run(http_task(url=receiver.url(), correlation_id=correlation))
    told = receiver.requests[0].headers.get("traceparent")
    assert told == (correlation if passed else None)


async def test_every_secret_signs(webhooks: HttpExecutor, receiver: Receiver) -> None:
    text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    payload = '{"a": "grüße"}'.encode()
    secrets = (decode_secret(text), b"the old one")
    await webhooks.run(http_task(payload=payload, url=receiver.url(), secrets=secrets))
    (request,) = receiver.requests
    headers = dict(request.headers)
    for secret in (text, b"the old one"):
        assert Webhook(secret).verify(request.body, headers) == {"a": "grüße"}
    assert len(headers["webhook-signature"].split(" ")) == 2
    with pytest.raises(WebhookVerificationError):
        Webhook(b"another").verify(request.body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(text).verify(request.body + b" ", headers)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b'{"a": 1.50}\n', b'{"a": 1.50}'),
        (b"  [1,\n 2]  ", b"[1,\n 2]"),
        (b"null", b"null"),
        (b"", None),
        (b"thanks", None),
        (b'{"a": 1', None),
        (b"NaN", None),
        (b'"\xff"', None),
        (b"[" * 30_000 + b"]" * 30_000, None),
        (b'"' + b"x" * (MAX_RESULT - 2) + b'"', b'"' + b"x" * (MAX_RESULT - 2) + b'"'),
        (b'"' + b"x" * (MAX_RESULT - 1) + b'"', None),
    ],
)
@pytest.mark.parametrize("status", [200, 202])
async def test_a_json_body_is_the_result(
    webhooks: HttpExecutor, receiver: Receiver, status: int, body: bytes, result: bytes | None
) -> None:
    receiver.answers(status, body)
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert (outcome.kind, outcome.http_status) == (OutcomeKind.COMPLETED, status)
    assert outcome.result == result
    assert outcome.log is not None
    assert (b"[no result: " in outcome.log) is (result is None and body != b"")


async def test_the_log_tells_the_story(webhooks: HttpExecutor, receiver: Receiver) -> None:
    receiver.answers(201, b"thanks\x1b[31m\n")
    task = http_task(url=receiver.url("/hook?token=hidden#part"))
    outcome = await webhooks.run(task)
    text = (outcome.log or b"").decode()
    expected = (
        r"POST {}\n201 Created after \d+m?s\nthanks \[31m\n\[no result: the body is not JSON\]\n"
    )
    assert re.fullmatch(expected.format(re.escape(receiver.url())), text)
    assert task.output.closed


async def test_a_long_body_is_shown_in_part(webhooks: HttpExecutor, receiver: Receiver) -> None:
    receiver.answers(200, b"#" * 1_000_000)
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert outcome.log is not None
    assert outcome.log.count(b"#") == 2048
    assert outcome.log.endswith(b"[no result: the body is larger than 64KiB]\n")


async def test_an_endless_body_is_not_read_to_its_end(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    gone = asyncio.Event()

    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"z" * 65536)
        except ConnectionError:
            gone.set()
            raise

    receiver.reply = flood
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert (outcome.kind, outcome.result) == (OutcomeKind.COMPLETED, None)
    async with asyncio.timeout(10):
        await gone.wait()


async def test_a_compressed_body_is_not_unpacked(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    receiver.answers(200, b"\x1f\x8b\x08" + b"\0" * 30, Content_Encoding="gzip")
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert (outcome.kind, outcome.result) == (OutcomeKind.COMPLETED, None)
    assert b"the body is not JSON" in (outcome.log or b"")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_answers_worth_another_try(
    webhooks: HttpExecutor, receiver: Receiver, status: int
) -> None:
    receiver.answers(status, b"not\nnow " + b"x" * 10_000)
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert (outcome.kind, outcome.http_status) == (OutcomeKind.FAILED, status)
    assert re.match(rf"answered {status}( [\w ]+)?: not now xxx", outcome.error or "")
    assert len(outcome.error or "") <= MAX_ERROR
    assert outcome.retry_after_ms is None


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 410])
async def test_every_other_answer_is_fatal(
    webhooks: HttpExecutor, receiver: Receiver, status: int
) -> None:
    receiver.answers(status, Location=receiver.url("/elsewhere"), Retry_After="5")
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert (outcome.kind, outcome.http_status) == (OutcomeKind.FATAL, status)
    assert (outcome.error or "").startswith(f"answered {status} ")
    assert outcome.error.endswith("redirects are not followed") is (status < 400)  # type: ignore[union-attr]
    assert outcome.retry_after_ms is None
    assert [request.target for request in receiver.requests] == ["/hook"]


async def test_the_wait_is_what_the_receiver_asked_for(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    receiver.answers(500, Retry_After="7")
    assert (await webhooks.run(http_task(url=receiver.url()))).retry_after_ms == 7_000
    receiver.answers(502, Retry_After=formatdate(time.time() + 100, usegmt=True))
    wait = (await webhooks.run(http_task(url=receiver.url()))).retry_after_ms
    assert wait is not None
    assert 30_000 < wait <= 100_000


async def test_no_cookie_is_kept_from_one_job_to_the_next(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    receiver.answers(200, Set_Cookie="session=1; Path=/")
    for _ in range(2):
        await webhooks.run(http_task(url=receiver.url(host="localhost")))
    assert ["Cookie" in request.headers for request in receiver.requests] == [False, False]


async def test_the_environment_names_no_proxy(
    webhooks: HttpExecutor, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    outcome = await webhooks.run(http_task(url=receiver.url()))
    assert outcome.kind is OutcomeKind.COMPLETED


async def test_many_jobs_at_once_do_not_wait_for_each_other(
    webhooks: HttpExecutor, receiver: Receiver
) -> None:
    count = 150
    together = asyncio.Barrier(count)

    async def meet(request: web.BaseRequest) -> web.StreamResponse:
        await together.wait()
        return web.Response()

    receiver.reply = meet
    outcomes = await asyncio.gather(
        *(webhooks.run(http_task(url=receiver.url())) for _ in range(count))
    )
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.COMPLETED}


async def test_a_name_is_looked_up(webhooks: HttpExecutor, receiver: Receiver) -> None:
    outcome = await webhooks.run(http_task(url=receiver.url(host="localhost")))
    assert outcome.kind is OutcomeKind.COMPLETED
    assert receiver.requests[0].headers["Host"] == f"localhost:{receiver.port}"
