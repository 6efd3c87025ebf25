"""Job ids: UUIDv7 whose time and counter are also the job's place in the store."""

from __future__ import annotations

import os

_COUNTER_BITS = 12
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1
_CHANCES = 256
"""Random parts drawn at a time: a system call for each id would cost more than all the rest."""


class IdMaker:
    """Makes ids that only ever grow, even when the wall clock steps back."""

    def __init__(self, last_place: int = 0) -> None:
        self._last_place = last_place
        self._chances: list[str] = []

    def make(self, now: int) -> str:
        """A new id for the moment `now`; past 4,096 in a millisecond it borrows from the next."""
        place = max(first_place(now), self._last_place + 1)
        self._last_place = place
        if not self._chances:
            self._chances = _draw(_CHANCES)
        milliseconds = f"{place >> _COUNTER_BITS:012x}"
        counter = place & _COUNTER_MASK
        return f"{milliseconds[:8]}-{milliseconds[8:]}-7{counter:03x}-{self._chances.pop()}"


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


def _draw(number: int) -> list[str]:
    """The random ends of so many ids: a variant digit of 8 to b, then fifteen of any kind."""
    digits = os.urandom(8 * number).hex()
    ends = [digits[at : at + 16] for at in range(0, len(digits), 16)]
    return [f"{'89ab'[int(end[0], 16) & 3]}{end[1:4]}-{end[4:]}" for end in ends]
