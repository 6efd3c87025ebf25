"""All benchmarks in one run, one table: python benchmarks/run.py [--only NAME] [--json FILE]."""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    claim,
    control,
    drain,
    idle,
    latency,
    memory,
    recovery,
    retention,
    spawn,
    start,
    submit,
)
from benchmarks.support import Figure, Others, Required, say

SUBJECTS: dict[str, Callable[[], list[Figure]]] = {
    "claim": claim.measure,
    "submit": submit.measure,
    "latency": latency.measure,
    "memory": memory.measure,
    "idle": idle.measure,
    "start": start.measure,
    "spawn": spawn.measure,
    "drain": drain.measure,
    "recovery": recovery.measure,
    "retention": retention.measure,
    "control": control.measure,
}
NOISY_CORES = 0.15
HEADINGS = ("subject", "figure", "reference", "ratio", "required")


def main() -> int:
    """Measure what was asked for; 1 when something could not be measured."""
    options = _options()
    figures: list[Figure] = []
    failed: list[str] = []
    for name in options.only or SUBJECTS:
        say(f"{name} ...")
        others = Others()
        try:
            figures += SUBJECTS[name]()
        except Exception:
            traceback.print_exc()
            failed.append(name)
        if others.cores() > NOISY_CORES:
            say(f"  other programs used {others.cores():.2f} cores meanwhile: do not trust this")
    print(table(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(document(figures, failed), indent=2) + "\n")
    for name in failed:
        say(f"{name} could not be measured")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure jobqueued on this machine.")
    parser.add_argument(
        "--only", action="append", choices=SUBJECTS, help="this subject; may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def table(figures: list[Figure]) -> str:
    """The figures in columns."""
    rows = [HEADINGS, *(_row(figure) for figure in figures)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _row(figure: Figure) -> tuple[str, ...]:
    reference = ratio = ""
    if figure.reference is not None:
        reference = f"{_number(figure.reference)} {figure.against}"
    if figure.ratio is not None:
        ratio = f"{figure.ratio:.2f}"
    value = f"{_number(figure.value)} {figure.unit}".rstrip()
    return figure.name, value, reference, ratio, _verdict(figure)


def _verdict(figure: Figure) -> str:
    if figure.required is None:
        return ""
    return f"{_bound(figure.required, figure.unit)}: {'pass' if figure.passed else 'FAIL'}"


def _bound(required: Required, unit: str) -> str:
    what = f"ratio {required.bound:g}" if required.of_ratio else f"{required.bound:g} {unit}"
    return f"{required.sign} {what}".rstrip()


def _number(value: float) -> str:
    """Three digits that say something."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def document(figures: list[Figure], failed: list[str]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "kernel": platform.release(),
        "failed": failed,
        "figures": [
            asdict(figure) | {"ratio": figure.ratio, "passed": figure.passed} for figure in figures
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
