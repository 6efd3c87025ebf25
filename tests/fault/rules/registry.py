"""The list of rules that every run is held to; a capability adds its own with `@rule`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.fault.evidence import Evidence

Rule = Callable[[Evidence], Iterator[str]]
RULES: dict[str, Rule] = {}
"""By the sentence that has to be true; a rule yields what contradicts it."""


def rule(sentence: str) -> Callable[[Rule], Rule]:
    """Add a rule to the list."""

    def add(function: Rule) -> Rule:
        if sentence in RULES:
            raise ValueError(f"there is a rule already: {sentence}")
        RULES[sentence] = function
        return function

    return add
