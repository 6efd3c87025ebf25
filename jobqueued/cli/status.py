"""`jobqueued status`."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from jobqueued.cli.documents import join
from jobqueued.cli.offline import Offline, or_from_file
from jobqueued.cli.options import json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import milliseconds, plain, size, span
from jobqueued.clock import now
from jobqueued.model.job import Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ALWAYS_SHOWN = (Status.PENDING, Status.PROCESSING, Status.COMPLETED, Status.DEAD)
HEADINGS = {
    Status.SCHEDULED: "SCHED",
    Status.PROCESSING: "RUNNING",
    Status.RETRYING: "RETRY",
    Status.DISCARDED: "DISCARD",
    Status.CANCELLED: "CANCEL",
}
"""Where the status itself is long: all nine leave room for a name in 80 columns."""
BAR = 20
WIDTH = 80


@click.command()
@json_option
@with_target
def status(target: Target, as_json: bool) -> None:
    """Show how the daemon and its queue are."""
    body, offline = or_from_file(target, lambda daemon: daemon.get("/stats").body, _read)
    if as_json:
        click.echo(body)
    else:
        draw(_decoded(body), offline)
    if offline is not None:
        offline.tell()


def _read(database: Path) -> bytes:
    from jobqueued.store.sqlite.offline import read_status

    return join(read_status(database))


def _decoded(body: bytes) -> dict[str, Any]:
    import msgspec

    return msgspec.json.decode(body, type=dict[str, Any])


def draw(stats: dict[str, Any], offline: Offline | None) -> None:
    """One screen: state, counts by type, pools."""
    from jobqueued.cli.screen import console

    screen = console()
    screen.print(state_of(stats, offline))
    screen.print(_waiting(stats))
    screen.print(_store(stats["store"]))
    if kept := kept_jobs(stats["store"].get("retention"), now()):
        screen.print(kept)
    _draw_types(screen, stats["types"])
    _draw_pools(screen, stats.get("pools") or {})


def state_of(stats: dict[str, Any], offline: Offline | None) -> Text:
    """The line at the top: whether a daemon runs and how it is."""
    from rich.text import Text

    if offline is not None:
        word = "not running" if offline.holder is None else "not answering"
        return Text.assemble("jobqueued: ", (word, "bold red"))
    word, colour = "ready", "green"
    if stats["draining"]:
        word, colour = "shutting down", "yellow"
    elif not stats["ready"]:
        word, colour = "not ready", "red"
    version, uptime = stats["version"], span(stats["uptime_seconds"])
    process = f", process {stats['pid']}" if "pid" in stats else ""
    rest = f", up {uptime}{process}"
    text = Text.assemble(f"jobqueued {version}: ", (word, f"bold {colour}"), rest)
    for reason in stats["reasons"]:
        text.append(f"\n  {plain(reason)}")
    return text


def _waiting(stats: dict[str, Any]) -> Text:
    from rich.text import Text

    counts = stats["counts"]
    waiting = sum(counts.get(each, 0) for each in ("scheduled", "pending", "retrying"))
    text = Text(f"jobs: {waiting} waiting, {counts.get('processing', 0)} running")
    if stats.get("oldest_pending_seconds") is not None:
        text.append(f", oldest pending {span(stats['oldest_pending_seconds'])}")
    dead = stats["dlq_depth"]
    text.append("; ").append(f"{dead} dead", style="bold red" if dead else "")
    return text


def _store(store: dict[str, Any]) -> str:
    free = f" ({size(store['free_bytes'])} unused)" if "free_bytes" in store else ""
    parts = [size(store["bytes"]) + free, f"write-ahead log {size(store['wal_bytes'])}"]
    if store.get("durability"):
        parts.append(f"durability {store['durability']}")
    return "store: " + ", ".join(parts)


def kept_jobs(retention: dict[str, Any] | None, moment: int) -> str:
    """The text that tells which finished jobs there are and when the next of them goes."""
    if retention is None or retention["next_deletion_at"] is None:
        return ""
    parts = [
        f"{each['jobs']} {status} for {span(each['keep_seconds'])}"
        for status, each in retention["outcomes"].items()
        if each["jobs"]
    ]
    seconds = (milliseconds(retention["next_deletion_at"]) - moment) / 1000
    following = f"the next goes in {span(seconds)}" if seconds > 0 else "old ones are going now"
    return fill(f"kept: {', '.join(parts)}; {following}", WIDTH, subsequent_indent="  ")


def _draw_types(screen: Console, types: dict[str, Any]) -> None:
    from jobqueued.cli.screen import COLOURS, print_table, table_of_names

    if not types:
        return
    counts = {name: each["counts"] for name, each in types.items()}
    shown = [each for each in Status if each in ALWAYS_SHOWN or _any(counts, each)]
    drawn = table_of_names("TYPE", gap=1)
    for each in shown:
        heading = HEADINGS.get(each, each.upper())
        drawn.add_column(heading, justify="right", style=COLOURS[each], overflow="fold")
    for name in sorted(counts):
        drawn.add_row(plain(name), *(str(counts[name].get(each, 0)) for each in shown))
    screen.print()
    print_table(screen, drawn)
    for name in sorted(types):
        for held in _held(types[name]):
            screen.print(f"{plain(name)}: {held}", style="yellow")


def _held(figures: dict[str, Any]) -> list[str]:
    """What an operator may want to change; `jobqueued types` says more."""
    held = ["paused"] if figures.get("paused") else []
    return held + (["breaker open"] if figures.get("breaker") in ("open", "probing") else [])


def _any(counts: dict[str, dict[str, int]], status: Status) -> bool:
    return any(each.get(status) for each in counts.values())


def _draw_pools(screen: Console, pools: dict[str, dict[str, int]]) -> None:
    from jobqueued.cli.screen import print_table, table_of_names

    if not pools:
        return
    drawn = table_of_names("POOL", "BUSY", "")
    for name, pool in sorted(pools.items()):
        drawn.add_row(plain(name), *_busy(pool["busy"], pool["workers"]))
    screen.print()
    print_table(screen, drawn)


def _busy(busy: int, workers: int) -> tuple[str, str]:
    filled = round(BAR * min(busy / workers, 1)) if workers else 0
    return "█" * filled + "░" * (BAR - filled), f"{busy} of {workers}"
