"""Payloads held to a schema: what is taken, and each field at fault in words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobqueued.config.payloads import (
    LONGEST_FIELD,
    MOST_FAULTS,
    accepts_payload,
    payload_faults,
)
from jobqueued.config.schema import check_schema
from jobqueued.model.job_type import JobType, RemoteHandler

SOON = 5.0
"""Seconds; what would take forever is not over by then, what is quick long is."""


def typed(schema: Any) -> JobType:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    check_schema(text)
    return JobType(name="x", handler=RemoteHandler(), payload_schema=text)


def faults(schema: Any, payload: Any) -> dict[str, str]:
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    job_type = typed(schema)
    found = payload_faults(job_type, text)
    assert accepts_payload(job_type, text) == (not found)
    return dict(found)


def test_a_type_without_a_schema_takes_everything() -> None:
    free = JobType(name="x", handler=RemoteHandler())
    assert accepts_payload(free, b'"\\ud800"')
    assert payload_faults(free, b"9" * 5000) == []


SHOP = {
    "type": "object",
    "required": ["url"],
    "additionalProperties": False,
    "properties": {
        "url": {"type": "string", "maxLength": 20, "pattern": "^https://"},
        "items": {"items": {"$ref": "#/$defs/item"}, "maxItems": 4, "uniqueItems": True},
        "pair": {"prefixItems": [{"type": "string"}, {"enum": ["a", 2, None]}], "items": False},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "integer", "multipleOf": 5}]},
        "shape": {
            "oneOf": [
                {"properties": {"kind": {"const": "circle"}}, "required": ["kind", "radius"]},
                {"properties": {"kind": {"const": "box"}}, "required": ["kind", "width"]},
            ]
        },
        "labels": {"patternProperties": {"^x-": {"type": "boolean"}}, "minProperties": 1},
        "card": {"dependentRequired": {"number": ["name"]}, "additionalProperties": {"minimum": 3}},
        "odd name": {"const": 1.5},
    },
    "$defs": {"item": {"type": "object", "properties": {"width": {"minimum": 1}}}},
}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, {".url": "is required"}),
        ([], {"": "must be an object, not a list"}),
        (None, {"": "must be an object, not null"}),
        ({"url": 5}, {".url": "must be text, not 5"}),
        ({"url": "http://"}, {".url": 'must match the pattern "^https://"'}),
        ({"url": "https://" + "x" * 5000}, {".url": "must have at most 20 characters"}),
        ({"itens": 1}, {".itens": 'is not known here (did you mean "items"?)'}),
        ({"items": [{"width": 1}, {"width": 0}]}, {".items[1].width": "must be at least 1"}),
        ({"items": [1, 1]}, {".items": "must not hold the same item twice",
                             ".items[0]": "must be an object, not 1"}),
        ({"items": [{"a": n} for n in range(5)]}, {".items": "must have at most 4 items"}),
        ({"pair": [None, "b", 1]}, {".pair[0]": "must be text, not null",
                                    ".pair[1]": 'must be one of "a", 2, null',
                                    ".pair[2]": "is not allowed here"}),
        ({"maybe": 7}, {".maybe": "must be a multiple of 5"}),
        ({"maybe": "x"}, {".maybe": "is none of the 2 forms that it may have"}),
        ({"shape": {"kind": "box"}}, {".shape.width": "is required"}),
        ({"shape": {}}, {".shape": "is none of the 2 forms that it may have"}),
        ({"labels": {"x-a": 1}}, {".labels.x-a": "must be true or false, not 1"}),
        ({"labels": {}}, {".labels": "must have at least 1 field"}),
        ({"card": {"number": 1}}, {".card.name": "is required",
                                   ".card.number": "must be at least 3"}),
        ({"odd name": 1}, {'."odd name"': "must be 1.5"}),
    ],
)  # fmt: skip
def test_each_field_at_fault_and_what_is_expected(payload: Any, expected: dict[str, str]) -> None:
    found = faults(SHOP, payload)
    assert expected.items() <= found.items()
    unnamed = set(found) - set(expected) - {".url", ".items[1]"}
    assert not unnamed


@pytest.mark.parametrize(
    ("schema", "payload", "rule"),
    [
        ({"not": {"type": "object"}}, {}, "not"),
        ({"contains": {"const": 1}}, [2], "contains"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames"),
        ({"unevaluatedProperties": False}, {"ab": 1}, "unevaluatedProperties"),
        ({"$ref": "#x", "$defs": {"x": {"$anchor": "x", "type": "null"}}}, 1, "$ref"),
    ],
)
def test_a_rule_that_has_no_words_is_named(schema: Any, payload: Any, rule: str) -> None:
    assert faults(schema, payload) == {
        "": f'breaks the rule "{rule}" at "#" in the schema of its type'
    }


@pytest.mark.parametrize(
    ("schema", "payload", "where"),
    [
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, ".b"),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, {"c": 1}, ".b"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, ".b"),
        (
            {"allOf": [{"$ref": "#/$defs/a~1b%20%C3%A9"}], "$defs": {"a/b é": {"required": ["b"]}}},
            {},
            ".b",
        ),
        ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, {"a": {"a": 1}}, ".a.a"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 2, ""),
    ],
)
def test_the_fault_is_found_wherever_the_rule_is(schema: Any, payload: Any, where: str) -> None:
    assert list(faults(schema, payload)) == [where]


BIG = 10**30


@pytest.mark.parametrize(
    ("schema", "payload", "is_good"),
    [
        ({"type": "integer", "maximum": BIG}, str(BIG), True),
        ({"type": "integer", "maximum": BIG}, str(BIG + 1), False),
        ({"multipleOf": 7}, str(7 * BIG), True),
        ({"multipleOf": 7}, str(7 * BIG + 1), False),
        ({"const": BIG}, str(BIG), True),
        ({"const": BIG}, str(BIG + 1), False),
        ({"multipleOf": 0.01}, "19.99", True),
        ({"multipleOf": 0.01}, "19.999", False),
        ({"type": "integer"}, "1.0", True),
        ({"type": "integer"}, "1e3", True),
        ({"type": "integer"}, "0.1", False),
        ({"type": "number"}, "1e999", True),
        ({"maximum": 5}, "1e999", False),
        ({"multipleOf": 7}, "1e999999999", False),
        ({"minimum": 5}, "1e-999999999", False),
        ({"uniqueItems": True}, "[1, 1.0]", False),
        ({"uniqueItems": True}, "[0, false]", True),
        ({"maxLength": 1}, '"\U0001f600"', True),
        ({"pattern": "^a$"}, '"a\\n"', False),
        ({"format": "email"}, '"nobody"', True),
        ({"properties": {"a": {"const": 2}}}, '{"a": 1, "a": 2}', True),
    ],
)
def test_values_are_compared_digit_by_digit(schema: Any, payload: str, is_good: bool) -> None:
    assert bool(faults(schema, payload.encode())) != is_good


@pytest.mark.parametrize(
    "payload", [b'"\\ud800"', b'{"\\udfff": 1}', b"1" * 5000, b"1e99999999999999999999"]
)
def test_what_no_schema_can_be_held_against_is_said(payload: bytes) -> None:
    assert "cannot be checked against the schema" in faults({"type": "string"}, payload)[""]


def test_no_value_is_echoed_at_length_and_faults_are_few() -> None:
    long = "y" * 30_000
    found = payload_faults(
        typed({"items": {"type": "integer", "enum": ["z" * 500] * 30}}),
        json.dumps([long] * 50).encode(),
    )
    assert len(found) == MOST_FAULTS
    assert all(len(field) + len(message) < 1500 for field, message in found)
    ((where, _),) = faults({"additionalProperties": False}, {long: 1}).items()
    assert len(where) < 100
    nested = json.loads('{"a":' * 100 + '{"' + "b" * 3000 + '":1}' + "}" * 100)
    loop = {"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#/$defs/n"},
            "$defs": {"n": {"type": "null"}}}  # fmt: skip
    ((where, _),) = faults(loop, nested).items()
    assert len(where) <= LONGEST_FIELD


TWICE = '[{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]'
ENDLESS = {
    "anyOf": '{"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"a":'
    ' {"anyOf": TWICE}}}, "y": {"type": "object", "required": ["q"], "properties": {"a":'
    ' {"anyOf": TWICE}}}}}'.replace("TWICE", TWICE),
    "allOf": '{"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"a":'
    ' {"allOf": TWICE}}}, "y": {"$ref": "#/$defs/x"}}}'.replace("TWICE", TWICE),
    "oneOf": '{"oneOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["z"]},'
    ' {"properties": {"a": {"$ref": "#"}}, "required": ["y"]}]}',
    "dynamic": '{"$dynamicAnchor": "n", "type": "object", "properties": {"a": {"anyOf":'
    ' [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n", "minProperties": 1}]}}}',
}  # fmt: skip


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_a_schema_that_doubles_with_every_level_does_not_hang(schema: str) -> None:
    began = time.monotonic()
    assert faults(schema, b'{"a":' * 120 + b"1" + b"}" * 120)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("schema", ['{"$ref": "#"}', '{"allOf": [{"$ref": "#"}]}'])
def test_a_schema_that_goes_in_circles_ends(schema: str) -> None:
    assert faults(schema, 1) == {}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"pattern": "(a+)+$"}, "a" * 60_000 + "!"),
        ({"pattern": "^(a|a)*$"}, "a" * 60_000 + "!"),
        ({"uniqueItems": True}, [*range(10_000), 5]),
        ({"items": {"anyOf": [{"type": "null"}, {"minimum": 5}, {"maximum": 0}]}}, [1] * 20_000),
        ({"items": {"enum": list(range(5000))}}, [-1] * 300),
        ({"items": {"enum": [{"a": [*range(200), n]} for n in range(40)]}}, [1] * 300),
        ({"items": {"allOf": [{"enum": ["a", *(n + 0.5 for n in range(30))]}] * 14}}, [9.1] * 200),
        ({"items": {"allOf": [{"minimum": 0.5}] * 400}}, [94.5] * 2000 + [0]),
        ({"items": {"multipleOf": 3}}, [10**4000] * 15),
        ({"patternProperties": {f"(b+)+{n}$": {} for n in range(300)},
          "additionalProperties": False}, {f"{'b' * 20}{n}!": 1 for n in range(2000)}),
    ],
)  # fmt: skip
def test_large_payloads_are_done_with_soon(schema: Any, payload: Any) -> None:
    began = time.monotonic()
    assert faults(schema, payload)
    assert time.monotonic() - began < SOON


def test_too_many_comparisons_are_refused_not_made() -> None:
    forms = {"items": {"anyOf": [{"const": n} for n in range(3000)]}}
    assert "too many values" in faults(forms, [2999] * 13_000)[""]
    assert faults(forms, [2999] * 100) == {}
    assert faults(forms, ["," * 60_000, 2999])
    assert "too many values" not in faults(forms, ["," * 60_000])["[0]"]


names = st.sampled_from("abc")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, "", "a", "abc", BIG]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
rules: st.SearchStrategy[Any] = st.deferred(
    lambda: st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "object",
                                     "array"]),
            "enum": st.lists(values, min_size=1, max_size=3),
            "minimum": st.integers(-2, 2),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "required": st.lists(names, max_size=2, unique=True),
            "properties": st.dictionaries(names, rules, max_size=2),
            "additionalProperties": rules,
            "prefixItems": st.lists(rules, min_size=1, max_size=2),
            "items": rules,
            "allOf": st.lists(rules, min_size=1, max_size=2),
            "anyOf": st.lists(rules, min_size=1, max_size=2),
            "oneOf": st.lists(rules, min_size=1, max_size=2),
            "not": rules,
        },
    )
)  # fmt: skip
whole = rules.filter(lambda rule: isinstance(rule, dict))


def same(first: Any, second: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if isinstance(first, bool) != isinstance(second, bool):
        return False
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)


def is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("boolean" if isinstance(value, bool) else "null")
    number = isinstance(value, int | float)
    return {
        "number": number,
        "integer": number and value == int(value),
        "string": isinstance(value, str),
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
    }.get(kind, False)


def by_the_book(rule: Any, value: Any) -> bool:
    """The specification, word by word."""
    if isinstance(rule, bool):
        return rule
    fits = [by_the_book(one, value) for one in rule.get("oneOf", [])]
    return (
        ("type" not in rule or is_of(rule["type"], value))
        and ("enum" not in rule or any(same(value, one) for one in rule["enum"]))
        and (not is_of("number", value) or value >= rule.get("minimum", value))
        and (not is_of("string", value) or len(value) <= rule.get("maxLength", len(value)))
        and all(by_the_book(one, value) for one in rule.get("allOf", []))
        and ("anyOf" not in rule or any(by_the_book(one, value) for one in rule["anyOf"]))
        and ("oneOf" not in rule or fits.count(True) == 1)
        and ("not" not in rule or not by_the_book(rule["not"], value))
        and (not isinstance(value, list) or items_by_the_book(rule, value))
        and (not isinstance(value, dict) or fields_by_the_book(rule, value))
    )


def items_by_the_book(rule: Any, value: list[Any]) -> bool:
    first = rule.get("prefixItems", [])
    rest = [*first, *[rule.get("items", True)] * max(0, len(value) - len(first))]
    return len(value) >= rule.get("minItems", 0) and all(map(by_the_book, rest, value))


def fields_by_the_book(rule: Any, value: dict[str, Any]) -> bool:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    return set(rule.get("required", [])) <= value.keys() and all(
        by_the_book(known.get(name, others), one) for name, one in value.items()
    )


@settings(max_examples=400, deadline=None)
@given(rule=whole, value=values)
def test_what_is_taken_is_what_the_specification_takes(rule: Any, value: Any) -> None:
    found = payload_faults(typed(rule), json.dumps(value).encode())
    assert (not found) == by_the_book(rule, value)
    assert len(found) <= MOST_FAULTS
    assert all(message and (not field or field[0] in ".[") for field, message in found)
