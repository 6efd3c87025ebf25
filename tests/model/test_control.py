"""What holds a type, as plain values."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.model.control import OPEN_TO_ALL, Control, Room
from jobqueued.model.rate import Rate

NOW = 1_800_000_000_000
MINUTE = 60_000


def opened(probe_at: int) -> Control:
    return Control(breaker_since=NOW - 1, breaker_probe_at=probe_at, breaker_reason="all failed")


rooms = st.builds(
    Room, st.integers(0, 20), st.just(MINUTE),
    st.none() | st.builds(Rate, st.integers(1, 100), st.sampled_from((1_000, 60_000))),
    st.none() | st.integers(100, MINUTE),
)  # fmt: skip
moments = st.integers(NOW - MINUTE, NOW + MINUTE)
controls = st.builds(
    Control,
    paused_at=st.none() | moments,
    breaker_since=st.none() | moments,
    breaker_probe_at=moments,
    spent_until=st.none() | moments.map(Fraction),
)


@given(controls, rooms, st.integers(0, 30))
def test_there_is_never_more_room_than_any_limit_leaves(
    control: Control, room: Room, running: int
) -> None:
    left = control.left(room, running, NOW)
    assert 0 <= left <= max(0, room.most - running)
    if control.paused_at is not None:
        assert left == 0
    if room.rate is not None:
        assert left <= room.rate.tokens(control.spent_until, NOW)
    if control.breaker_since is not None and room.probe_every is not None:
        assert left + running <= max(1, running)


@given(controls, rooms, st.integers(0, 30))
def test_who_takes_all_the_room_leaves_none_of_what_is_spent(
    control: Control, room: Room, running: int
) -> None:
    left = control.left(room, running, NOW)
    after = control.started(room, left, NOW) if left else control
    assert after.left(room, running + left, NOW) == 0


def test_an_open_breaker_lets_one_through_when_it_is_time() -> None:
    room = Room(5, MINUTE, None, MINUTE)
    assert opened(NOW + 1).left(room, 0, NOW) == 0
    assert opened(NOW).left(room, 0, NOW) == 1
    assert opened(NOW).left(room, 1, NOW) == 0
    after = opened(NOW).started(room, 1, NOW)
    assert (after.breaker_probe_at, after.left(room, 0, NOW + MINUTE - 1)) == (NOW + MINUTE, 0)
    assert after.left(room, 0, NOW + MINUTE) == 1


def test_a_probe_that_is_further_off_than_the_next_may_be_is_not_waited_for() -> None:
    """The clock was set back after the last one, or the configuration waits less long."""
    room = Room(5, MINUTE, None, MINUTE)
    assert opened(NOW + MINUTE).left(room, 0, NOW) == 0
    assert opened(NOW + MINUTE + 1).left(room, 0, NOW) == 1
    assert opened(NOW + MINUTE + 1).left(room, 1, NOW) == 0
    after = opened(NOW + 10**9).started(room, 1, NOW)
    assert after.left(room, 0, NOW) == 0


def test_who_has_no_rate_and_no_breaker_is_not_written_down() -> None:
    assert OPEN_TO_ALL.started(Room(5, MINUTE), 3, NOW) is OPEN_TO_ALL


@given(controls, st.integers(-2 * MINUTE, 2 * MINUTE))
def test_after_the_clock_was_set_back_nothing_is_ahead(control: Control, by: int) -> None:
    now = NOW + by
    assert not control.set_back(now).is_ahead(now)
    if not control.is_ahead(now):
        assert control.set_back(now) == control


def test_an_open_breaker_waits_as_long_as_before_the_clock_was_set_back() -> None:
    control = Control(breaker_since=NOW, breaker_probe_at=NOW + MINUTE, breaker_reason="x")
    assert control.set_back(NOW - 10**9) == msgspec.structs.replace(
        control, breaker_since=NOW - 10**9, breaker_probe_at=NOW - 10**9 + MINUTE
    )
