"""The list of faults that a campaign can suffer, and of trials that drive themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.fault.campaign import Campaign
from tests.fault.table import Row

Inject = Callable[[Campaign], Awaitable[None]]
Run = Callable[[Path, int], Awaitable[Row]]

MODULES: tuple[str, ...] = (
    "kills",
    "limited",
    "points",
    "disks",
    "clocks",
    "pauses",
    "children",
    "operators",
    "files",
    "small_disks",
    "power.trial",
)
"""Of this folder: those that declare faults or trials."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something bad that happens to a campaign under load.

    `inject` returns when the daemon takes jobs again. `prepare` is called before the daemon of the
    campaign is started, for faults that need it started in a special way.
    """

    name: str
    inject: Inject
    ends_daemon: bool
    times: int
    missing: Callable[[], str | None]
    prepare: Callable[[Campaign], None] | None


@dataclass(frozen=True, slots=True)
class Trial:
    """A fault that does not fit a campaign: `run(place, times)` does it all and gives its row."""

    name: str
    run: Run
    times: int
    missing: Callable[[], str | None]


FAULTS: dict[str, Fault] = {}
TRIALS: dict[str, Trial] = {}


def nothing_missing() -> str | None:
    return None


def fault(
    name: str,
    *,
    ends_daemon: bool,
    times: int = 20,
    missing: Callable[[], str | None] = nothing_missing,
    prepare: Callable[[Campaign], None] | None = None,
) -> Callable[[Inject], Inject]:
    """Declare a fault; `missing` says what this machine lacks for it, `times` how often it is done.

    Faults that do not end the daemon are mixed in the part of the soak that watches its memory.
    """

    def add(inject: Inject) -> Inject:
        async def on_record(campaign: Campaign) -> None:
            work = campaign.history.at_work(name)
            try:
                await inject(campaign)
            finally:
                campaign.over(work)

        FAULTS[name] = Fault(name, on_record, ends_daemon, times, missing, prepare)
        return inject

    return add


def trial(
    name: str, *, times: int, missing: Callable[[], str | None] = nothing_missing
) -> Callable[[Run], Run]:
    """Declare a trial; `times` is how many rounds `make fault` asks of it."""

    def add(run: Run) -> Run:
        TRIALS[name] = Trial(name, run, times, missing)
        return run

    return add


def declare_all() -> None:
    """Have every fault and trial in the lists."""
    for name in MODULES:
        import_module(f"tests.fault.{name}")
