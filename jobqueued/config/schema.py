"""The JSON Schema of a type's payloads: compiled once per text, and safe to run on the loop.

Patterns run in time linear to the text. What a recursive reference comes back to is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from jobqueued.config.faults import Keys, quoted, show
from jobqueued.config.schema_cost import REFERENCES, looks_at_one_value

if TYPE_CHECKING:
    from jsonschema_rs import Registry, ValidationError, Validator

LARGEST = 256 * 1024
DEEPEST = 100
MOST_LOOKS = 10_000
"""How often a schema may look at one value."""
MOST_WORK = 2_000_000
"""Looks at all values of one payload together: two tenths of a second at the worst."""
MOST_FAULTS = 10
LONGEST_WORDS = 300
MOST_PARTS = 200
"""Parts of one schema that are kept compiled to tell where a payload is wrong."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_BASE = "urn:payload"
_PLAIN = "~$!'()*+,;=:@"
"""Beside letters and digits what may stand in the fragment of a reference as it is."""
_PATTERN_BYTES = 512 * 1024
"""The larger a pattern may get, the longer the worst of them take for each character."""
_UNREADABLE = (
    "cannot be checked against the schema of its type: it holds half a character (a lone \\ud800"
    " to \\udfff) or a number of thousands of digits"
)
_BITS = 64
"""Of a whole number; a longer one takes as long as several."""
_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""
_INSTEAD = {
    "$id": 'leave it out and refer to "#/$defs/name"',
    "$schema": f'only JSON Schema 2020-12 is known: leave it out or write "{DIALECT}"',
}


class BadSchema(ValueError):
    """It cannot be used; each fault is where inside the schema, and what to do."""

    def __init__(self, *faults: tuple[Keys, str]) -> None:
        super().__init__(faults)
        self.faults = faults


class Unreadable(ValueError):
    """A payload that is JSON, but not such as a schema can be held against."""


class Schema:
    """A schema that has passed `check_schema`, ready to use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.looks = looks_at_one_value(self.root)
        self._whole = _compiled(text)
        self._parts: dict[Keys, Validator] = {}

    @cached_property
    def root(self) -> dict[str, Any]:
        """The schema as a value."""
        found: dict[str, Any] = _VALUE.decode(self.text)
        return found

    @cached_property
    def _registry(self) -> Registry:
        from jsonschema_rs import Registry

        return Registry([(_BASE, self.root)])

    def accepts(self, value: object) -> bool:
        """Whether a value is as the schema wants it."""
        return self._whole.is_valid(value)

    def part_accepts(self, keys: Keys, value: object) -> bool:
        """The same for the part of the schema that these keys lead to."""
        return self._part(keys, {"$ref": _BASE + pointer(keys)}, self._registry).is_valid(value)

    def rule_accepts(self, keys: Keys, rule: dict[str, Any], value: object) -> bool:
        """The same for one rule of that part, without references."""
        return self._part((-1, *keys, *rule), rule, None).is_valid(value)

    def _part(self, keys: Keys, part: dict[str, Any], registry: Registry | None) -> Validator:
        if keys not in self._parts:
            if len(self._parts) >= MOST_PARTS:
                self._parts.clear()
            self._parts[keys] = _compiled(part, registry)
        return self._parts[keys]


@lru_cache(maxsize=1000)
def schema_of(text: str) -> Schema:
    """The compiled schema, once for all types and reloads that have the same text."""
    return Schema(text)


def read_payload(payload: bytes) -> Any:
    """A payload as a value that keeps every digit."""
    try:
        return _VALUE.decode(payload)
    except (ValueError, InvalidOperation, RecursionError):
        raise Unreadable(_UNREADABLE) from None


def is_too_much(schema: Schema, payload: bytes, value: object) -> bool:
    """Whether to hold the one against the other would take too long."""
    most = MOST_WORK // schema.looks
    # Commas within texts count here, which is quick.
    about = payload.count(b",") + payload.count(b"[") + payload.count(b"{") + len(payload) // 4
    return about >= most and _weight(value) > most


def check_schema(text: str) -> None:
    """Raise BadSchema unless the text is a schema that can be used."""
    root = _parse(text)
    faults = [fault for keys, node in _tables(root) for fault in _own_faults(keys, node)]
    faults = faults or list(_grammar_faults(root))
    if faults:
        raise BadSchema(*faults[:MOST_FAULTS])
    _compile_or_raise(text)
    _check_looks(root)


def _check_looks(root: dict[str, Any]) -> None:
    try:
        looks = looks_at_one_value(root)
    except RecursionError:
        fix = "have fewer of them"
        raise BadSchema(((), f"has too many references one after the other: {fix}")) from None
    if looks > MOST_LOOKS:
        fix = "have fewer alternatives or references"
        raise BadSchema(((), f"may look at one value more than {MOST_LOOKS} times: {fix}"))


def pointer(keys: Keys) -> str:
    """`#/$defs/size`, as references are written."""
    steps = (quote(str(key).replace("~", "~0").replace("/", "~1"), safe=_PLAIN) for key in keys)
    return "#" + "".join(f"/{step}" for step in steps)


def _parse(text: str) -> dict[str, Any]:
    try:
        root = _VALUE.decode(text)
    except (ValueError, InvalidOperation) as error:
        raise BadSchema(((), f"is not JSON: {error}")) from None
    except RecursionError:
        raise BadSchema(((), f"is nested more than {DEEPEST} levels deep")) from None
    if not isinstance(root, dict):
        raise BadSchema(((), f"must be a JSON object, not {show(root)}"))
    return root


def _tables(root: dict[str, Any]) -> Iterator[tuple[Keys, dict[str, Any]]]:
    """Every object in the schema, with the way to it."""
    waiting: list[tuple[Keys, Any]] = [((), root)]
    while waiting:
        keys, node = waiting.pop()
        if len(keys) > DEEPEST:
            raise BadSchema(((), f"is nested more than {DEEPEST} levels deep"))
        if isinstance(node, dict):
            yield keys, node
            inner = [(key, value) for key, value in node.items() if key not in _DATA]
            waiting += [((*keys, key), value) for key, value in inner]
        elif isinstance(node, list):
            waiting += [((*keys, index), value) for index, value in enumerate(node)]


def _own_faults(keys: Keys, node: dict[str, Any]) -> Iterator[tuple[Keys, str]]:
    """What is legal JSON Schema and still not for us."""
    for key in REFERENCES:
        if isinstance(node.get(key), str) and not node[key].startswith("#"):
            yield (*keys, key), f"{quoted(node[key])} leads out of the schema: {_outside()}"
    dialect = node.get("$schema")
    if isinstance(dialect, str) and dialect.removesuffix("#") != DIALECT:
        yield (*keys, "$schema"), f"is {quoted(dialect)}: {_INSTEAD['$schema']}"
    if keys and isinstance(node.get("$id"), str):
        yield (*keys, "$id"), f"is for the top of the schema only: {_INSTEAD['$id']}"


def _outside() -> str:
    return 'nothing is fetched; copy it into "$defs" and refer to "#/$defs/name"'


def _grammar_faults(root: dict[str, Any]) -> Iterator[tuple[Keys, str]]:
    seen: set[Keys] = set()
    for error in _grammar().iter_errors(root):
        keys = tuple(error.instance_path)
        if keys not in seen:
            seen.add(keys)
            yield keys, _grammar_words(error)


def _grammar_words(error: ValidationError) -> str:
    """Our own words where the library's are not for people."""
    if error.kind.name == "anyOf":
        return f"{show(error.instance)} is not one of the types that JSON Schema knows"
    return (
        error.message
        if len(error.message) < LONGEST_WORDS
        else f"breaks the rule {error.kind.name}"
    )


def _compile_or_raise(text: str) -> None:
    try:
        _compiled(text)
    except ValueError as error:
        keys, words = _compile_fault(error)
        raise BadSchema((keys, words)) from None


def _compile_fault(error: ValueError) -> tuple[Keys, str]:
    kind = getattr(getattr(error, "kind", None), "name", "")
    keys: Keys = tuple(getattr(error, "instance_path", ()))
    first = str(error).partition("\n")[0][:LONGEST_WORDS]
    if kind == "format":
        fix = "it has look-around, back-references or very large repetitions, or is malformed"
        return keys, f"{first.partition(' is not a')[0]} is not a pattern that can be used: {fix}"
    return keys, f"a reference leads nowhere: {first}" if kind == "$ref" else first


def _compiled(schema: str | dict[str, Any], registry: Registry | None = None) -> Validator:
    # Only who has a schema pays for the library.
    from jsonschema_rs import Draft202012Validator, RegexOptions

    patterns = RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    return Draft202012Validator(schema, registry=registry, pattern_options=patterns, offline=True)


def fits(schema: dict[str, Any], value: object) -> bool:
    """Whether a value fits a small schema without references."""
    return _compiled(schema).is_valid(value)


@lru_cache(maxsize=1000)
def pattern_of(pattern: str) -> Validator:
    """What takes the texts that match a pattern."""
    return _compiled({"pattern": pattern})


@lru_cache(maxsize=1)
def _grammar() -> Validator:
    return _compiled({"$ref": DIALECT})


def _weight(value: object) -> int:
    """How many values there are; a number of many digits counts as many."""
    number, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        number += 1
        if isinstance(one, int):
            number += one.bit_length() // _BITS
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return number


_VALUE = msgspec.json.Decoder(float_hook=Decimal)
