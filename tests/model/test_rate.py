"""A rate is never exceeded, and never given away."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobqueued.model.rate import Rate

START = 1_800_000_000_000
SECOND = 1_000
UNITS = (1_000, 60_000, 3_600_000, 86_400_000)

rates = st.builds(Rate, st.integers(1, 10_000), st.sampled_from(UNITS))
asks = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 50)), min_size=1, max_size=60)
"""How long after the one before, and for how many."""


def burst(rate: Rate) -> Fraction:
    return max(Fraction(1), Fraction(rate.count * SECOND, rate.per))


def serve(rate: Rate, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """When how many were let through, of a bucket that was full."""
    now = START
    spent: Fraction | None = None
    let_through = []
    for pause, wanted in asked:
        now += pause
        number = min(wanted, rate.tokens(spent, now))
        if number:
            spent = rate.spend(number, spent, now)
        let_through.append((now, number))
    return let_through


@given(rates, asks)
@example(Rate(7, 1_000), [(0, 50), (142, 50), (1, 50), (143, 50)])
def test_no_window_ever_has_more_than_a_burst_and_what_came_in_it(
    rate: Rate, asked: list[tuple[int, int]]
) -> None:
    served = serve(rate, asked)
    for first in range(len(served)):
        total = 0
        for now, number in served[first:]:
            total += number
            came = Fraction(rate.count * (now - served[first][0]), rate.per)
            assert total <= burst(rate) + came


@given(rates, st.lists(st.integers(0, 200), min_size=1, max_size=200))
def test_under_load_it_is_met_within_a_token(rate: Rate, pauses: list[int]) -> None:
    served = serve(rate, [(0, 10_000), *((pause, 10_000) for pause in pauses)])
    elapsed = served[-1][0] - START
    # Nothing is lost while everything that comes is taken before the bucket is full again.
    total = sum(number for _, number in served)
    exact = burst(rate) + Fraction(rate.count * elapsed, rate.per)
    assert exact - 1 < total <= exact


@given(rates, st.lists(st.integers(1, 50), min_size=1, max_size=50))
def test_whoever_comes_when_told_gets_a_token_and_nobody_earlier(
    rate: Rate, taken: list[int]
) -> None:
    now = START
    spent: Fraction | None = None
    for wanted in taken:
        number = min(wanted, rate.tokens(spent, now))
        spent = rate.spend(max(1, number), spent, now)
        if rate.tokens(spent, now) == 0:
            following = rate.next_token_at(spent, now)
            assert following > now
            assert rate.tokens(spent, following) >= 1
            assert rate.tokens(spent, following - 1) == 0
            now = following


def test_hours_under_load_lose_not_a_token() -> None:
    rate = Rate(7, 1_000)
    now, spent, total = START, rate.spend(7, None, START), 7
    for _ in range(50_000):
        now = rate.next_token_at(spent, now)
        number = rate.tokens(spent, now)
        spent = rate.spend(number, spent, now)
        total += number
    exact = 7 + Fraction(7 * (now - START), 1_000)
    assert exact - 1 < total <= exact


@pytest.mark.parametrize(
    ("rate", "at_once"),
    [(Rate(1, 60_000), 1), (Rate(100, 60_000), 1), (Rate(120, 60_000), 2), (Rate(50, 1_000), 50)],
)
def test_a_full_bucket_holds_a_seconds_worth_and_at_least_one(rate: Rate, at_once: int) -> None:
    assert rate.tokens(None, START) == at_once
    assert rate.tokens(Fraction(START - 10**9), START) == at_once


@given(rates, rates, st.integers(0, 10_000), st.integers(0, 10_000))
def test_another_rate_gives_no_burst_that_was_not_waited_for(
    old: Rate, new: Rate, before: int, after: int
) -> None:
    """What was spent is time: the new rate counts from there, as if it had always held."""
    spent = old.spend(old.tokens(None, START), None, START)
    saved = START - spent
    assert 0 <= saved < Fraction(old.per, old.count)
    now = START + before + after
    assert new.tokens(spent, now) <= (saved + before + after) * Fraction(new.count, new.per)


def test_rates_changed_to_and_fro_grant_nothing() -> None:
    fast, slow, total = Rate(1_000, 1_000), Rate(1, 3_600_000), 0
    spent: Fraction | None = None
    for rate in (fast, slow, fast, slow, fast):
        number = rate.tokens(spent, START)
        spent = rate.spend(number, spent, START)
        total += number
    assert total == 1_000


def test_a_clock_that_was_set_back_grants_nothing() -> None:
    rate = Rate(10, 1_000)
    spent = rate.spend(10, None, START)
    moments = [START - 60_000 + step for step in range(0, 61_000, 1_000)]
    assert [rate.tokens(spent, now) for now in moments[:-1]] == [0] * 60
    assert all(rate.tokens(spent, a) <= rate.tokens(spent, b) for a, b in pairwise(moments))
