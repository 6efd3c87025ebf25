"""Cutting the power of a recorded run at many moments, and judging what is left each time."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jobqueued.store.sqlite.migrate import shipped_migrations
from tests.fault.power.chance import draw_way
from tests.fault.power.inspection import Findings, inspect
from tests.fault.power.promises import Promises
from tests.fault.power.recording import Kind, Operation, read_trace
from tests.fault.power.replay import Disk

_TURNING_POINTS = {Kind.SYNCED, Kind.RENAMED, Kind.UNLINKED, Kind.RESIZED}
SHARED_MEMORY = 32768
LONG_AFTER = 1.0
"""Seconds after the last operation, when nothing is under way any more."""


class Cut(NamedTuple):
    """When the power goes, after how many operations, and what chance does to the rest."""

    after: int
    way: str
    seed: str


@dataclass(slots=True)
class Run:
    """A recorded run: where, what was done to the files, what was promised meanwhile."""

    place: Path
    trace: Path
    promised: Promises
    database: str = "jobs.db"
    """Below the place."""
    schema: int = field(default_factory=lambda: len(shipped_migrations()))
    """The newest that a file of this run may have."""

    def operations(self) -> list[Operation]:
        return read_trace(self.trace)


def draw_cuts(
    operations: Sequence[Operation], number: int, seed: str, way: str | None = None
) -> list[Cut]:
    """Random cuts in the order of time; half of them close to a sync or a change of names."""
    chance = random.Random(seed)
    turns = [at for at, one in enumerate(operations) if one.kind in _TURNING_POINTS]
    cuts = []
    for count in range(number):
        after = chance.randrange(len(operations) + 1)
        if count % 2 and turns:
            after = chance.choice(turns) + chance.randint(0, 1)
        cuts.append(Cut(after, way or draw_way(chance), f"{seed}-{count}"))
    return sorted(cuts)


def moment_of(operations: Sequence[Operation], cut: Cut) -> float:
    """Seconds on the monotonic clock; the operation that was then under way has no effect yet."""
    if cut.after == len(operations):
        return operations[-1].ended / 1e9 + LONG_AFTER
    return operations[cut.after].ended / 1e9


def images(
    root: Path, operations: Sequence[Operation], cuts: Sequence[Cut], target: Path
) -> Iterator[tuple[Cut, Path]]:
    """The files after each cut, in a directory that is gone when the next one is asked for."""
    disk = Disk(root)
    for cut in sorted(cuts):
        disk.follow(operations[disk.number : cut.after])
        image = Path(tempfile.mkdtemp(dir=target))
        chance = random.Random(cut.seed)
        disk.lose_power(chance, cut.way, image)
        _leave_shared_memory(image, chance)
        yield cut, image
        shutil.rmtree(image)


def _leave_shared_memory(image: Path, chance: random.Random) -> None:
    """Anything may be in the files that SQLite maps: nobody syncs them."""
    for path in image.rglob("*-shm"):
        path.write_bytes(chance.randbytes(SHARED_MEMORY))


def judge(run: Run, operations: Sequence[Operation], cuts: Sequence[Cut]) -> list[Findings]:
    """What is wrong after each of the cuts, which are in the order of time."""
    with tempfile.TemporaryDirectory() as target:
        return [
            inspect(image / run.database, run.schema, run.promised, moment_of(operations, cut))
            for cut, image in images(run.place, operations, cuts, Path(target))
        ]
