"""What is wrong with a payload, field by field: the schema has said no, this finds where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from jobqueued.config.faults import Keys, did_you_mean, dotted, quoted
from jobqueued.config.schema import (
    Schema,
    Unreadable,
    fits,
    is_too_much,
    pattern_of,
    pointer,
    read_payload,
    schema_of,
)
from jobqueued.config.schema_cost import pointer_keys
from jobqueued.model.job import MAX_LABEL
from jobqueued.model.job_type import JobType

MOST_FAULTS = 20
"""Faults listed for one payload."""
MOST_CHECKS = 20_000
MOST_FORMS = 20
"""Forms of a value among which the one that was meant is looked for."""
DEEPEST = 260
LONGEST_FIELD = 500

_SHOWN_CHOICES = 10
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_WORDS = {
    "const": "must be {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "pattern": "must match the pattern {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} fields",
    "maxProperties": "must have at most {} fields",
}
_UNEXPLAINED = (
    "not",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$ref",
)
_OWN = frozenset({*_WORDS, "type", "enum", "uniqueItems"})

Step = tuple[Keys, Any, Any, Keys]
"""Where in the schema, the schema there, the value it is for, where that is in the payload."""


def accepts_payload(job_type: JobType, payload: bytes) -> bool:
    """Whether the schema of the type takes the payload; every payload where it has none."""
    if job_type.payload_schema is None:
        return True
    schema = schema_of(job_type.payload_schema)
    try:
        value = read_payload(payload)
    except Unreadable:
        return False
    return not is_too_much(schema, payload, value) and schema.accepts(value)


def payload_faults(job_type: JobType, payload: bytes) -> list[tuple[str, str]]:
    """Each field at fault, such as `.items[3].width`, and what is expected of it."""
    if accepts_payload(job_type, payload):
        return []
    assert job_type.payload_schema is not None, "without a schema every payload is taken"
    schema = schema_of(job_type.payload_schema)
    try:
        value = read_payload(payload)
    except Unreadable as error:
        return [("", str(error))]
    if is_too_much(schema, payload, value):
        fix = "send less at once"
        return [("", f"has too many values to compare them with the schema of its type: {fix}")]
    found = _Search(schema).find(value)
    return [(_field(keys), message) for keys, message in found]


class _Search:
    """Goes down where the schema says no, as far as it can tell what for."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._found: dict[tuple[Keys, str], None] = {}
        self._checks = 0

    def find(self, value: object) -> list[tuple[Keys, str]]:
        self._look(((), self._schema.root, value, ()), 0)
        return list(self._found)

    def _look(self, step: Step, depth: int) -> None:
        """Note what is wrong here and below; when nothing can be named, that it is wrong."""
        place, node, value, keys = step
        before = len(self._found)
        if isinstance(node, dict) and depth < DEEPEST:
            for below, message in self._own_faults(place, node, value):
                self._note((*keys, *below), message)
            for inner in self._below(step):
                if self._is_full:
                    break
                if not self._accepts(inner[0], inner[2]):
                    self._look(inner, depth + 1)
            self._look_at_forms(step, depth)
        if len(self._found) == before and not (self._found and self._is_full):
            self._note(keys, self._last_word(place, node))

    @property
    def _is_full(self) -> bool:
        return len(self._found) >= MOST_FAULTS or self._checks >= MOST_CHECKS

    def _accepts(self, place: Keys, value: object) -> bool:
        self._checks += 1
        return self._schema.part_accepts(place, value)

    def _note(self, keys: Keys, message: str) -> None:
        if len(self._found) < MOST_FAULTS:
            self._found[keys, message] = None

    def _last_word(self, place: Keys, node: object) -> str:
        if node is False:
            return "is not allowed here"
        rules = [key for key in _UNEXPLAINED if isinstance(node, dict) and key in node]
        rule = f"the rule {quoted(rules[0])}" if rules else "a rule"
        return f"breaks {rule} at {quoted(pointer(place), 200)} in the schema of its type"

    def _own_faults(
        self, place: Keys, node: dict[str, Any], value: object
    ) -> Iterator[tuple[Keys, str]]:
        """What the schema says of the value itself, and not of what is in it."""
        for key in [key for key in node if key in _OWN]:
            if not self._schema.rule_accepts(place, {key: node[key]}, value):
                yield (), _words(key, node[key], value)
        if isinstance(value, dict):
            yield from (((name,), "is required") for name in _missing(node, value))

    def _below(self, step: Step) -> Iterator[Step]:
        place, node, value, keys = step
        yield from self._in_place(step)
        if isinstance(value, dict):
            yield from self._fields(step)
        elif isinstance(value, list):
            first = node.get("prefixItems", [])
            for index, item in enumerate(value):
                if index < len(first):
                    yield (*place, "prefixItems", index), first[index], item, (*keys, index)
                elif "items" in node:
                    yield (*place, "items"), node["items"], item, (*keys, index)

    def _in_place(self, step: Step) -> Iterator[Step]:
        place, node, value, keys = step
        if "$ref" in node:
            target = self._target(node["$ref"])
            if target is not None:
                yield *target, value, keys
        for index, one in enumerate(node.get("allOf", [])):
            yield (*place, "allOf", index), one, value, keys
        if "if" in node:
            then = "then" if self._accepts((*place, "if"), value) else "else"
            if then in node:
                yield (*place, then), node[then], value, keys
        for name, one in node.get("dependentSchemas", {}).items():
            if isinstance(value, dict) and name in value:
                yield (*place, "dependentSchemas", name), one, value, keys

    def _target(self, reference: str) -> tuple[Keys, Any] | None:
        """Where a reference by pointer leads; anchors are left to the last word."""
        if reference != "#" and not reference.startswith("#/"):
            return None
        place: Keys = ()
        node: Any = self._schema.root
        for key in pointer_keys(reference):
            step: str | int = int(key) if isinstance(node, list) else key
            node = node[step]
            place = (*place, step)
        return place, node

    def _fields(self, step: Step) -> Iterator[Step]:
        place, node, value, keys = step
        properties = node.get("properties", {})
        patterns = node.get("patternProperties", {})
        for name, item in value.items():
            self._checks += len(patterns)
            if self._is_full:
                return
            matching = [one for one in patterns if pattern_of(one).is_valid(name)]
            for one in matching:
                yield (*place, "patternProperties", one), patterns[one], item, (*keys, name)
            if name in properties:
                yield (*place, "properties", name), properties[name], item, (*keys, name)
            elif not matching and node.get("additionalProperties", False) is not False:
                inner = (*place, "additionalProperties")
                yield inner, node["additionalProperties"], item, (*keys, name)
            elif not matching and "additionalProperties" in node:
                self._note((*keys, name), f"is not known here{_near(name, properties)}")

    def _look_at_forms(self, step: Step, depth: int) -> None:
        """`anyOf` and `oneOf`: look into the one form that was meant, where that is plain."""
        place, node, value, keys = step
        for word in ("anyOf", "oneOf"):
            forms = [] if self._is_full else node.get(word, [])
            steps = [((*place, word, i), form, value, keys) for i, form in enumerate(forms)]
            right = sum(self._accepts(one[0], value) for one in steps)
            few = steps if len(steps) <= MOST_FORMS else []
            meant = [one for one in few if self._may_mean(one[1], value)]
            if forms and not right and len(meant) == 1:
                self._look(meant[0], depth + 1)
            elif forms and not right:
                self._note(keys, f"is none of the {len(forms)} forms that it may have")
            elif word == "oneOf" and right > 1:
                self._note(keys, f"fits {right} forms of which it must fit exactly one")

    def _may_mean(self, form: Any, value: object) -> bool:
        """Whether the type fits, and the fields that tell one form from another."""
        target = self._target(form["$ref"]) if isinstance(form, dict) and "$ref" in form else None
        node = target[1] if target else form
        if not isinstance(node, dict):
            return bool(node)
        telling = [{key: node[key]} for key in ("type", "const", "enum") if key in node]
        if isinstance(value, dict):
            telling += [
                {"properties": {name: {key: one[key]}}}
                for name, one in node.get("properties", {}).items()
                if isinstance(one, dict) and name in value
                for key in ("const", "enum")
                if key in one
            ]
        return all(fits(one, value) for one in telling)


def _missing(node: dict[str, Any], value: dict[str, Any]) -> Iterator[str]:
    needed = list(node.get("required", []))
    for name, others in node.get("dependentRequired", {}).items():
        needed += others if name in value else []
    yield from (name for name in needed if name not in value)


def _words(key: str, argument: Any, value: object) -> str:
    if key == "type":
        kinds = argument if isinstance(argument, list) else [argument]
        return f"must be {' or '.join(map(_TYPES.__getitem__, kinds))}, not {_kind(value)}"
    if key == "enum":
        more = ", …" if len(argument) > _SHOWN_CHOICES else ""
        return f"must be one of {', '.join(map(_shown, argument[:_SHOWN_CHOICES]))}{more}"
    if key == "uniqueItems":
        return "must not hold the same item twice"
    words = _WORDS[key].format(_shown(argument))
    return words[:-1] if words.endswith((" 1 items", " 1 fields", " 1 characters")) else words


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | Decimal):
        is_small = not isinstance(value, int) or value.bit_length() <= 64
        return _bounded(str(value)) if is_small else "a number"
    return "text" if isinstance(value, str) else _TYPES[_CONTAINERS[type(value)]]


_CONTAINERS: dict[type, str] = {dict: "object", list: "array"}


def _shown(argument: Any) -> str:
    """A value of the schema on one line, of bounded length."""
    if isinstance(argument, str):
        return quoted(argument)
    if isinstance(argument, Decimal):
        return _bounded(str(argument))
    return _bounded(json.dumps(argument, ensure_ascii=False, default=str))


def _bounded(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _near(name: str, known: dict[str, Any]) -> str:
    return did_you_mean(name[:MAX_LABEL], known)


def _field(keys: Keys) -> str:
    """The names in a payload may be as long as it is; these are not."""
    path = dotted(tuple(_bounded(key) if isinstance(key, str) else key for key in keys))
    path = path if not path or path.startswith("[") else f".{path}"
    return path if len(path) <= LONGEST_FIELD else path[: LONGEST_FIELD - 1] + "…"
