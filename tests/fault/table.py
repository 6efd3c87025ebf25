"""The table that every long run ends in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fault.checker import Report

HEADINGS = ("fault", "times", "lost", "duplicated", "violations")


@dataclass(slots=True)
class Row:
    """What came of one fault."""

    name: str
    times: int = 0
    lost: int = 0
    duplicated: int = 0
    violations: int = 0
    remarks: list[str] = field(default_factory=list)
    """Printed below the table: violations in words, measurements, why it was not done."""

    def merge(self, other: Row) -> None:
        """Add what the same fault came to elsewhere."""
        self.times += other.times
        self.lost += other.lost
        self.duplicated += other.duplicated
        self.violations += other.violations
        self.remarks += other.remarks

    def add(self, times: int, report: Report) -> None:
        """Add what a campaign came to."""
        self.times += times
        self.lost += report.lost
        self.duplicated += report.duplicated
        self.violations += report.broken
        if report.violations:
            self.remarks.append(str(report))

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.times} times, {self.lost} lost, {self.duplicated} duplicated, "
            f"{self.violations} violations"
        )


def render(rows: Iterable[Row]) -> str:
    """The rows as a table in Markdown, and the remarks below it."""
    rows = list(rows)
    lines = [" | ".join(HEADINGS), " | ".join("-" * len(word) for word in HEADINGS)]
    for row in rows:
        figures = (row.times, row.lost, row.duplicated, row.violations)
        lines.append(" | ".join([row.name, *map(str, figures)]))
    table = "\n".join(f"| {line} |" for line in lines)
    remarks = [f"{row.name}: {remark}" for row in rows for remark in row.remarks]
    return "\n".join([table, *([""] if remarks else []), *remarks])
