"""Job ids: UUIDv7 whose time and counter are also the job's place in the store."""

from __future__ import annotations

import os

_COUNTER_BITS = 12
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1
_RANDOM_MASK = (1 << 62) - 1


class IdMaker:
    """Makes ids that only ever grow, even when the wall clock steps back."""

    def __init__(self, last_place: int = 0) -> None:
        self._last_place = last_place

    def make(self, now: int) -> str:
        """A new id for the moment `now`; past 4,096 in a millisecond it borrows from the next."""
        place = max(first_place(now), self._last_place + 1)
        self._last_place = place
        return _text(place, int.from_bytes(os.urandom(8), "big") & _RANDOM_MASK)


def place_of(job_id: str) -> int | None:
    """The store's row number for an id, or None when it is not one of ours."""
    if len(job_id) != 36 or job_id[14] != "7":
        return None
    try:
        return int(job_id[:8] + job_id[9:13] + job_id[15:18], 16)
    except ValueError:
        return None


def first_place(moment: int) -> int:
    """The lowest row number an id of that millisecond can have."""
    return moment << _COUNTER_BITS


def _text(place: int, chance: int) -> str:
    milliseconds, counter = place >> _COUNTER_BITS, place & _COUNTER_MASK
    number = (milliseconds << 80) | (7 << 76) | (counter << 64) | (2 << 62) | chance
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
