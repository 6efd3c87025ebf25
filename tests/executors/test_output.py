"""Bounded output and its followers."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.executors.output import Output

pieces = st.lists(st.binary(max_size=40), max_size=20)


async def followed(output: Output) -> bytes:
    return b"".join([piece async for piece in output.follow()])


@given(pieces, st.integers(0, 30), st.integers(0, 30))
def test_beginning_and_end_are_kept(parts: list[bytes], head: int, tail: int) -> None:
    output = Output(head, tail)
    for part in parts:
        output.write(part)
    written = b"".join(parts)
    missing = max(0, len(written) - head - tail)
    expected = written
    if missing:
        marker = f"\n[... {missing} bytes left out ...]\n".encode()
        expected = written[:head] + marker + written[len(written) - tail :]
    assert output.snapshot() == expected
    assert output.total == len(written)


@given(pieces, st.integers(0, 30), st.integers(0, 30))
def test_a_late_follower_sees_the_snapshot(parts: list[bytes], head: int, tail: int) -> None:
    output = Output(head, tail)
    for part in parts:
        output.write(part)
    output.close()
    assert asyncio.run(followed(output)) == output.snapshot()


@given(pieces, st.integers(0, 60))
def test_the_ending(parts: list[bytes], size: int) -> None:
    output = Output(50, 50)
    for part in parts:
        output.write(part)
    ending = output.ending(size)
    assert len(ending) <= size
    assert b"".join(parts).endswith(ending)


async def test_followers_see_everything_as_it_comes() -> None:
    output = Output()
    followers = [output.follow() for _ in range(3)]
    output.write(b"one ")
    assert [await anext(follower) for follower in followers] == [b"one "] * 3
    waiting = [asyncio.ensure_future(anext(follower)) for follower in followers]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    output.write(b"two")
    assert await asyncio.gather(*waiting) == [b"two"] * 3
    output.close()
    for follower in followers:
        with pytest.raises(StopAsyncIteration):
            await anext(follower)


async def test_a_slow_follower_skips_and_is_told() -> None:
    output = Output(4, 4)
    follower = output.follow()
    output.write(b"0123")
    assert await anext(follower) == b"0123"
    for _ in range(1000):
        output.write(b"abcdefgh" * 100)
    output.close()
    rest = b"".join([piece async for piece in follower])
    assert rest == b"\n[... 799996 bytes left out ...]\nefgh"


async def test_a_follower_that_leaves_is_forgotten() -> None:
    output = Output()
    leaving = asyncio.create_task(followed(output))
    staying = asyncio.create_task(followed(output))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    output.write(b"x")
    output.close()
    assert await staying == b"x"


async def test_nothing_comes_after_the_end() -> None:
    output = Output()
    output.write(b"x")
    output.close()
    output.write(b"y")
    assert (output.snapshot(), output.total) == (b"x", 1)


async def test_what_is_kept_does_not_grow() -> None:
    output = Output(10, 10)
    for _ in range(10_000):
        output.write(b"some line of a log\n")
    assert len(re.sub(rb"\n\[.*?\]\n", b"", output.snapshot())) == 20


async def test_the_ending_does_not_reach_over_what_is_left_out() -> None:
    output = Output(4, 4)
    output.write(b"0123-missing-6789")
    assert output.ending(6) == b"6789"
