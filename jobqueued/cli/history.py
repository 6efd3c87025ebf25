"""What a job has been through: its attempts, and between them what people did to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jobqueued import clock
from jobqueued.cli.documents import one_line, parts, value
from jobqueued.cli.text import distance, plain, size, span

if TYPE_CHECKING:
    import msgspec
    from rich.console import Console

LONGEST_PAYLOAD = 200
"""Characters shown of an earlier payload."""
Row = tuple[str, ...]


def draw_history(
    screen: Console, attempts: Sequence[dict[str, Any]], changes: Sequence[msgspec.Raw]
) -> None:
    """Print attempts and changes in the order they happened."""
    from jobqueued.cli.screen import print_table, table

    if not attempts and not changes:
        return
    drawn = table("TRY", "OUTCOME", "WHEN", "TOOK", "EXIT", "MEMORY", "ERROR" + _more(changes))
    drawn.columns[-1].no_wrap, drawn.columns[-1].overflow = False, "fold"
    for row in _rows(attempts, changes):
        drawn.add_row(*row)
    screen.print()
    print_table(screen, drawn)


def _more(changes: Sequence[msgspec.Raw]) -> str:
    return " OR CHANGE" if changes else ""


def _rows(attempts: Sequence[dict[str, Any]], changes: Sequence[msgspec.Raw]) -> list[Row]:
    """A change comes after the attempts there were by then, whatever the clock showed."""
    placed = [((each["number"], 0), _attempt(each)) for each in attempts]
    for raw in changes:
        fields = parts(bytes(raw))
        placed.append(((value(fields["attempt"]), value(fields["number"])), _change(fields)))
    return [row for _, row in sorted(placed)]


def _attempt(each: dict[str, Any]) -> Row:
    error = (each["error"] or "").strip().splitlines() or [""]
    return (
        str(each["number"]),
        each["outcome"] or "running",
        distance(each["started_at"], clock.now()),
        _optional(each["duration_ms"], lambda taken: span(taken / 1000)),
        _optional(each["exit_code"], str),
        _optional(each["max_rss_bytes"], size),
        plain(error[-1]),
    )


def _change(fields: dict[str, msgspec.Raw]) -> Row:
    told = f"by {plain(value(fields['actor']))}"
    if value(fields["note"]):
        told += f": {plain(value(fields['note']))}"
    if value(fields["edited"]):
        told += f"; the payload was {_short(one_line(fields['payload_before']))}"
    when = distance(value(fields["at"]), clock.now())
    return ("", value(fields["action"]), when, "", "", "", told)


def _short(payload: str) -> str:
    shown = plain(payload)
    if len(shown) <= LONGEST_PAYLOAD:
        return shown
    return f"{shown[:LONGEST_PAYLOAD]}… (--json prints all of it)"


def _optional(number: Any, words: Callable[[Any], str]) -> str:
    return "" if number is None else words(number)
