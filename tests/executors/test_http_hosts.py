"""Hosts that ask for a pause get it, from all their jobs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from jobqueued import clock
from jobqueued.executors.hosts import LONGEST_REST, Hosts
from jobqueued.executors.http import HttpExecutor
from jobqueued.executors.interface import Task
from jobqueued.model.job_type import HttpHandler
from jobqueued.model.outcome import OutcomeKind
from tests.executors.http_support import Names, Receiver, a_receiver, http_task

SHOP = "https://shop.example"


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    setting = Time()
    monkeypatch.setattr(clock, "now", lambda: setting.now)
    return setting


@pytest.fixture
async def webhooks() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor(resolver=Names(["127.0.0.1"]))
    yield executor
    await executor.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with a_receiver() as running:
        yield running


def test_a_pause_ends(time: Time) -> None:
    hosts = Hosts()
    assert hosts.resting_until(SHOP) is None
    hosts.rest(SHOP, 5_000)
    assert hosts.resting_until(SHOP) == time.now + 5_000
    assert hosts.resting_until("https://other.example") is None
    time.now += 4_999
    assert hosts.resting_until(SHOP) == time.now + 1
    time.now += 1
    assert hosts.resting_until(SHOP) is None
    assert hosts.count == 0


def test_a_pause_is_made_longer_but_not_shorter(time: Time) -> None:
    hosts = Hosts()
    hosts.rest(SHOP, 5_000)
    hosts.rest(SHOP, 1_000)
    assert hosts.resting_until(SHOP) == time.now + 5_000
    hosts.rest(SHOP, 9_000)
    assert hosts.resting_until(SHOP) == time.now + 9_000


def test_a_pause_has_an_end_that_can_be_waited_for(time: Time) -> None:
    hosts = Hosts()
    hosts.rest(SHOP, 10**15)
    assert hosts.resting_until(SHOP) == time.now + LONGEST_REST
    hosts.rest("https://other.example", 10**15, longest=7_000)
    assert hosts.resting_until("https://other.example") == time.now + 7_000
    hosts.rest("https://third.example", 1_000, longest=0)
    assert hosts.resting_until("https://third.example") is None


def test_a_clock_that_is_set_back_frees_everybody(time: Time) -> None:
    hosts = Hosts()
    hosts.rest(SHOP, 5_000)
    time.now -= 2 * LONGEST_REST
    assert hosts.resting_until(SHOP) is None


def test_no_number_of_hosts_fills_the_memory(time: Time) -> None:
    hosts = Hosts(most=3)
    for number in range(1, 4):
        hosts.rest(f"http://{number}", number * 1000)
    hosts.rest("http://4", 9_000)
    assert [hosts.resting_until(f"http://{n}") is None for n in range(1, 5)] == [True] + [False] * 3
    time.now += 2_500
    hosts.rest("http://5", 9_000)
    assert hosts.count == 3
    assert hosts.resting_until("http://3") is not None


def url_task(url: str, **handler: object) -> Task:
    return http_task(
        payload=json.dumps({"url": url}).encode(),
        url_from=("url",),
        allowed_hosts=("*.example",),
        allow_private=True,
        **handler,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("status", [429, 503])
async def test_the_other_jobs_of_a_sick_host_wait(
    webhooks: HttpExecutor, receiver: Receiver, time: Time, status: int
) -> None:
    receiver.answers(status, Retry_After="60")
    url = receiver.url(host="shop.example")
    first = await webhooks.run(url_task(url))
    assert (first.kind, first.retry_after_ms) == (OutcomeKind.FAILED, 60_000)
    time.now += 10_000
    second = await webhooks.run(url_task(receiver.url("/other?key=geheim", host="SHOP.example.")))
    assert (second.kind, second.http_status) == (OutcomeKind.INTERRUPTED, None)
    assert second.retry_after_ms == 50_000
    assert re.fullmatch(
        r"host shop\.example\.? asked for a pause until 2023-11-14T22:14:20\.000Z",
        second.error or "",
    )
    assert second.log == f"{second.error}\n".encode()
    assert len(receiver.requests) == 1


async def test_other_hosts_do_not_wait(
    webhooks: HttpExecutor, receiver: Receiver, time: Time
) -> None:
    receiver.answers(503, Retry_After="60")
    await webhooks.run(url_task(receiver.url(host="shop.example")))
    receiver.answers(200)
    async with a_receiver() as neighbour:
        for url in (receiver.url(host="b.example"), neighbour.url(host="shop.example")):
            assert (await webhooks.run(url_task(url))).kind is OutcomeKind.COMPLETED


async def test_after_the_pause_jobs_go_out_again(
    webhooks: HttpExecutor, receiver: Receiver, time: Time
) -> None:
    receiver.answers(429, Retry_After="2")
    url = receiver.url(host="shop.example")
    await webhooks.run(url_task(url))
    receiver.answers(200)
    assert (await webhooks.run(url_task(url))).kind is OutcomeKind.INTERRUPTED
    time.now += 2_000
    assert (await webhooks.run(url_task(url))).kind is OutcomeKind.COMPLETED


async def test_a_fixed_address_at_rest_is_known_before_its_jobs_are_claimed(
    receiver: Receiver, time: Time
) -> None:
    hosts = Hosts()
    executor = HttpExecutor(hosts)
    task = http_task(url=receiver.url("/a"), longest_backoff=20_000)
    same_host = HttpHandler(url=receiver.url("/b"))
    assert executor.resting_until(same_host) is None
    receiver.answers(503, Retry_After="60")
    await executor.run(task)
    assert executor.resting_until(same_host) == time.now + 20_000
    assert hosts.resting_until(receiver.url("")) == time.now + 20_000
    assert executor.resting_until(HttpHandler(url="http://other.example/")) is None
    assert executor.resting_until(HttpHandler(url_from=("url",))) is None
    late = await executor.run(http_task(url=receiver.url("/c")))
    assert late.kind is OutcomeKind.INTERRUPTED
    await executor.close()
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("status", "retry_after"),
    [(200, "60"), (404, "60"), (500, "60"), (503, ""), (429, "0"), (429, "soon")],
)
async def test_nothing_else_makes_a_host_rest(
    webhooks: HttpExecutor, receiver: Receiver, status: int, retry_after: str
) -> None:
    receiver.answers(status, Retry_After=retry_after)
    await webhooks.run(http_task(url=receiver.url()))
    assert webhooks.resting_until(HttpHandler(url=receiver.url())) is None
    assert webhooks.hosts.count == 0
