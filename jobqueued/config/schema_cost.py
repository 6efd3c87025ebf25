"""How much work a payload schema can make: how often it looks at one and the same value."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote

IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
IN_PLACE = ("not", "if", "then", "else")
EITHER_LISTS = ("prefixItems",)
EITHER_TABLES = ("properties",)
EITHER = ("items", "additionalProperties")
EVERY = ("contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
EVERY_TABLES = ("patternProperties",)
REFERENCES = ("$ref", "$dynamicRef")
NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

FRACTION = 20
"""Looks that take as long as comparing with one number that has a fraction."""
NUMBER = 10
"""The same of a whole number with one that has a fraction."""
MOST_REFERENCES = 1000
"""Places in one schema that references may lead to."""


class _Cost(NamedTuple):
    """Looks at the value itself, and the most at any one value below it."""

    here: int
    below: int

    @property
    def most(self) -> int:
        return max(self)


_ONCE = _Cost(1, 0)


def looks_at_one_value(schema: dict[str, Any]) -> int:
    """An upper bound; what a reference comes back to is remembered, so it counts once.

    Raises RecursionError when the references are too many or their chain too long.
    """
    return _Weigher(schema).total()


def subschemas(node: Any) -> Iterator[Any]:
    """The schemas right inside a schema that apply to the value or to what is below it."""
    yield from in_place(node)
    yield from _either(node)
    yield from _every(node)


def in_place(node: Any) -> Iterator[Any]:
    """Those that apply to the same value, but for references."""
    yield from _listed(node, IN_PLACE_LISTS)
    yield from _single(node, IN_PLACE)
    yield from _tabled(node, ("dependentSchemas",))


def target_of(schema: Any, reference: object) -> Any:
    """The schema that `#/$defs/name` or `#anchor` stands for; None where there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference in ("#", "") or reference.startswith("#/"):
        return _at(schema, pointer_keys(reference))
    return _anchored(schema, reference[1:])


def pointer_keys(reference: str) -> list[str]:
    """`#/$defs/a~1b` as its keys."""
    parts = reference.split("/")[1:]
    return [unquote(part).replace("~1", "/").replace("~0", "~") for part in parts]


def _at(schema: Any, keys: list[str]) -> Any:
    for key in keys:
        if isinstance(schema, list):
            schema = schema[int(key)] if key.isdecimal() and int(key) < len(schema) else None
        else:
            schema = schema.get(key) if isinstance(schema, dict) else None
    return schema


def _anchored(schema: Any, name: str) -> Any:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if name in (node.get("$anchor"), node.get("$dynamicAnchor")):
                return node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return None


class _Weigher:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._known: dict[int, _Cost] = {}
        self._targets: dict[str, Any] = {}
        self._recursive: dict[int, Any] = {}

    def total(self) -> int:
        total = self._cost(self._schema).most
        # Weighing one may come upon others.
        weighed: set[int] = set()
        while rest := [one for key, one in self._recursive.items() if key not in weighed]:
            for node in rest:
                weighed.add(id(node))
                total += self._cost(node).most
        return total

    def _cost(self, node: Any) -> _Cost:
        if not isinstance(node, dict):
            return _ONCE
        if id(node) not in self._known:
            self._known[id(node)] = self._weigh(node)
        return self._known[id(node)]

    def _weigh(self, node: dict[str, Any]) -> _Cost:
        same = [self._cost(one) for one in in_place(node)]
        same += [self._referred(node[key]) for key in REFERENCES if key in node]
        either = max((self._cost(one).most for one in _either(node)), default=0)
        every = sum(self._cost(one).most for one in _every(node))
        here = 1 + _comparisons(node) + sum(cost.here for cost in same)
        return _Cost(here, sum(cost.below for cost in same) + either + every)

    def _target(self, reference: str) -> Any:
        if reference not in self._targets:
            if len(self._targets) >= MOST_REFERENCES:
                raise RecursionError
            self._targets[reference] = target_of(self._schema, reference)
        return self._targets[reference]

    def _referred(self, reference: str) -> _Cost:
        target = self._target(reference)
        if target is not None and self._comes_back(target):
            self._recursive[id(target)] = target
            return _ONCE
        return self._cost(target)

    def _comes_back(self, target: Any) -> bool:
        """Whether following everything inside leads to the same schema again."""
        if id(target) in self._recursive:
            return True
        seen: set[int] = set()
        waiting = self._next(target)
        while waiting:
            node = waiting.pop()
            if node is target:
                return True
            if id(node) not in seen:
                seen.add(id(node))
                waiting += self._next(node)
        return False

    def _next(self, node: Any) -> list[Any]:
        if not isinstance(node, dict):
            return []
        referred = [self._target(node[key]) for key in REFERENCES if key in node]
        return [*subschemas(node), *(one for one in referred if one is not None)]


def _comparisons(node: dict[str, Any]) -> int:
    """Texts are looked up, everything else is compared one by one."""
    choices = node.get("enum", [])
    only_texts = all(isinstance(choice, str) for choice in choices)
    found = 0 if only_texts else sum(map(_comparison, choices))
    bounds = sum(max(NUMBER, _comparison(node[key])) for key in NUMERIC if key in node)
    return found + bounds + _comparison(node.get("const")) - 1


def _comparison(value: Any) -> int:
    """How many looks it is worth to compare with a value of the schema."""
    if isinstance(value, Decimal):
        return FRACTION
    if isinstance(value, dict):
        return 1 + sum(map(_comparison, value.values()))
    return 1 + sum(map(_comparison, value)) if isinstance(value, list) else 1


def _either(node: Any) -> Iterator[Any]:
    yield from _tabled(node, EITHER_TABLES)
    yield from _listed(node, EITHER_LISTS)
    yield from _single(node, EITHER)


def _every(node: Any) -> Iterator[Any]:
    yield from _tabled(node, EVERY_TABLES)
    yield from _single(node, EVERY)


def _listed(node: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    for key in keys:
        yield from node.get(key, ()) if isinstance(node, dict) else ()


def _tabled(node: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    for key in keys:
        yield from node.get(key, {}).values() if isinstance(node, dict) else ()


def _single(node: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    for key in keys:
        if isinstance(node, dict) and key in node:
            yield node[key]
