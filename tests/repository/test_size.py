"""Functions fit on a screen, modules can be read at a sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
LONGEST_FUNCTION = 50
LONGEST_MODULE = 400
MEDIAN_FUNCTION = 10


def modules() -> list[Path]:
    return sorted((ROOT / "jobqueued").rglob("*.py"))


def functions() -> Iterator[tuple[str, int]]:
    """Where each function is, and how many lines it has."""
    for module in modules():
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                place = f"{module.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield place, node.end_lineno - node.lineno + 1


def test_no_function_is_longer_than_a_screen() -> None:
    assert [place for place, length in functions() if length > LONGEST_FUNCTION] == []


def test_most_functions_are_short() -> None:
    assert median(length for _, length in functions()) <= MEDIAN_FUNCTION


def test_no_module_is_longer_than_a_sitting() -> None:
    lengths = {str(module): len(module.read_text().splitlines()) for module in modules()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
