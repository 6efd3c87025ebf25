"""What of the unsynced changes reaches the disk before the power is gone."""

from __future__ import annotations

import random
from collections.abc import Iterable

NOTHING, ALL, IN_ORDER, WRITES, SECTORS = WAYS = ("nothing", "all", "in order", "writes", "sectors")
_LIKELY = {NOTHING: 1, ALL: 1, IN_ORDER: 3, WRITES: 3, SECTORS: 6}


def draw_way(chance: random.Random) -> str:
    """One of the ways to lose power, the worse ones more often."""
    return chance.choices(list(_LIKELY), list(_LIKELY.values()))[0]


class Fate:
    """The decisions for one image: for writes, sector by sector; for names and lengths, a prefix.

    `nothing`: only what was synced; `all`: everything, as after a kill; `in order`: up to some
    moment, torn at the last write; `writes`: each write whole or not at all; `sectors`: each
    sector of each write by itself.
    """

    def __init__(self, chance: random.Random, way: str, operations: int) -> None:
        self.keeps_all = way == ALL
        self.keeps_length = way == ALL or (way != NOTHING and chance.random() < 0.4)
        """Whether files are as long as they were to become, with zeros where data is missing."""
        self._way = way
        self._chance = chance
        self._operations = operations
        self._share = chance.choice((0.1, 0.5, 0.9))
        self._recent = chance.choice((3, 30, 300, operations + 1))
        self._data_end = self._draw_end()
        self._change_end = self._draw_end()

    def _draw_end(self) -> int:
        """The operation before which changes are kept: often one of the last."""
        if self._way == NOTHING:
            return 0
        if self._way == ALL:
            return self._operations + 1
        return self._operations + 1 - self._chance.randrange(self._recent + 1)

    def keeps_change(self, number: int) -> bool:
        """Whether a change of a name or a length is kept: no later one without the earlier."""
        return number < self._change_end

    def reached(self, number: int, sectors: range) -> Iterable[int]:
        """The sectors of a write that reached the disk."""
        if self._way == SECTORS:
            return [sector for sector in sectors if self._chance.random() < self._share]
        if self._way == WRITES:
            return sectors if self._chance.random() < self._share else ()
        if self._way == IN_ORDER and number == self._data_end:
            return sectors[: self._chance.randrange(len(sectors) + 1)]
        return sectors if number < self._data_end else ()
