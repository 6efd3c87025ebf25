"""Schemas of payloads: where they come from, and which cannot be used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobqueued.config import Config, examine_config, load_config
from jobqueued.config.schema import LARGEST, BadSchema, Schema, check_schema
from jobqueued.config.schema_cost import looks_at_one_value

Load = Callable[[str], Config]
Faults = Callable[[str], list[str]]

SIZE = {"type": "object", "properties": {"width": {"type": "integer", "minimum": 1}}}
NOBODY = 65534


def typed(schema: str) -> str:
    return f"[types.x]\nremote = true\npayload_schema = {schema}\n"


def faults_of(schema: Any) -> list[tuple[str, str]]:
    with pytest.raises(BadSchema) as caught:
        check_schema(schema if isinstance(schema, str) else json.dumps(schema))
    return [("/".join(map(str, keys)), message) for keys, message in caught.value.faults]


def doubled(times: int) -> dict[str, Any]:
    """A schema that looks at one value 2 to the power of `times`."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(times)}
    return {"$ref": "#/$defs/s0", "$defs": {**steps, f"s{times}": {"type": "integer"}}}


def test_a_file_lies_beside_the_configuration(load: Load, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/x.json").write_text(json.dumps(SIZE))
    text = load(typed('"schemas/x.json"')).types["x"].payload_schema
    assert text == json.dumps(SIZE)


def test_a_table_is_a_schema_too(load: Load) -> None:
    inline = '{ type = "object", properties.width = { type = "integer", minimum = 1 } }'
    assert json.loads(load(typed(inline)).types["x"].payload_schema or "") == SIZE
    tables = "[types.x]\nremote = true\n[types.x.payload_schema.properties.a]\nmaxLength = 3\n"
    text = load(tables).types["x"].payload_schema
    assert json.loads(text or "") == {"properties": {"a": {"maxLength": 3}}}


def test_without_one_there_is_none(load: Load) -> None:
    assert load("[types.x]\nremote = true\n").types["x"].payload_schema is None


def test_types_with_the_same_schema_are_equal_and_with_another_are_not(load: Load) -> None:
    first, second = (load(typed(f"{{ maxLength = {n} }}")).types["x"] for n in (1, 2))
    assert first != second
    assert first == load(typed("{ maxLength = 1 }")).types["x"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a":', "is not JSON"),
        (b"", "is not JSON"),
        (b'{"maximum": NaN}', "is not JSON"),
        (b"\xff{}", "is not UTF-8 text"),
        (b"[]", "must be a JSON object, not a list"),
        (b"true", "must be a JSON object, not true"),
        (b'{"items": ' * 500 + b"{}" + b"}" * 500, "nested more than 100 levels"),
        (b" " * (LARGEST + 1), "is larger than 256KiB"),
        (b'{"type": "strng"}', 'type "strng" is not one of the types that JSON Schema knows'),
        (b'{"properties": {"a": {"minLength": -1}}}', "properties.a.minLength -1 is less than"),
        (b'{"$schema": "http://json-schema.org/draft-07/schema#"}', "only JSON Schema 2020-12"),
        (b'{"$schema": "urn:mine"}', "only JSON Schema 2020-12"),
    ],
)
def test_a_file_that_is_no_schema(
    faults: Faults, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "x.json").write_bytes(content)
    (fault,) = faults(typed('"x.json"'))
    assert fault.startswith(f"types.x.payload_schema: {tmp_path / 'x.json'}")
    assert words in fault
    assert len(fault) < 600


def test_what_is_no_file_to_read(faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "is not there; a relative path starts" in faults(typed('"missing.json"'))[0]
    assert "Is a directory" in faults(typed('"directory"'))[0]
    assert "is not an ordinary file" in faults(typed('"pipe"'))[0]


@pytest.mark.parametrize("value", ["5", "true", '["x.json"]', '""', '"~/x.json"'])
def test_what_is_neither_path_nor_table(faults: Faults, value: str) -> None:
    assert "types.x.payload_schema: must be the path of a JSON Schema" in faults(typed(value))[0]


def test_every_fault_of_a_table_has_its_key(faults: Faults) -> None:
    found = faults(typed('{ type = "strng", properties.a.minimum = "3" }'))
    assert [fault.partition(": ")[0] for fault in found] == [
        "types.x.payload_schema.properties.a.minimum",
        "types.x.payload_schema.type",
    ]
    found = faults(typed("{ default = 2020-01-01, maximum = inf }"))
    assert all(fault.endswith("is not possible in JSON") for fault in found)
    assert len(found) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_a_file_for_others_is_no_fault_to_who_only_checks(tmp_path: Path) -> None:
    """What may not be read stops the daemon, but not a user who wants to know the address."""
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.json").chmod(0)
    file = tmp_path / "jobqueued.toml"
    file.write_text(typed('"x.json"'))
    for directory in (tmp_path, *tmp_path.parents):
        directory.chmod(directory.stat().st_mode | 0o011)
    child = os.fork()
    if not child:
        os.setuid(NOBODY)
        examined = examine_config(file, {"STATE_DIRECTORY": "/state"})
        load_config(file, {"STATE_DIRECTORY": "/state"}, with_secrets=False)
        kept = not examined.faults and "may not be read by this user" in examined.warnings[0]
        os._exit(0 if kept else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "reference", ["http://example.com/s.json", "file:///etc/passwd", "other.json", "//host/x", "x#"]
)
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_reference_leads_within_the_schema_only(key: str, reference: str) -> None:
    ((where, message),) = faults_of({"properties": {"a": {key: reference}}})
    assert where == f"properties/a/{key}"
    assert "leads out of the schema: nothing is fetched" in message


@pytest.mark.parametrize("reference", ["#/$defs/no", "#no"])
def test_a_reference_leads_somewhere(reference: str) -> None:
    assert "leads nowhere" in faults_of({"$ref": reference})[0][1]


def test_what_looks_like_a_reference_may_be_data() -> None:
    check_schema('{"const": {"$ref": "http://x"}, "examples": [{"$schema": "y", "$id": "z"}]}')
    check_schema('{"$id": "https://example.com/x", "$schema": '
                 '"https://json-schema.org/draft/2020-12/schema"}')  # fmt: skip
    assert faults_of({"properties": {"a": {"$id": "x"}}})[0][0] == "properties/a/$id"


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "[", "((a{1000}){1000}){1000}"]
)
def test_patterns_that_take_more_than_linear_time_or_space_are_refused(pattern: str) -> None:
    ((where, message),) = faults_of({"properties": {"a": {"pattern": pattern}}})
    assert where == "properties/a/pattern"
    assert "is not a pattern that can be used" in message


@pytest.mark.parametrize("pattern", ["(a+)+$", r"^\p{L}+$", "^.{1,300}$", r"\u00e9\d\s"])
def test_ordinary_patterns_are_fine(pattern: str) -> None:
    check_schema(json.dumps({"pattern": pattern}))


def test_a_schema_may_not_grow_without_bounds_when_it_is_followed() -> None:
    check_schema(json.dumps(doubled(8)))
    assert "may look at one value more than 10000 times" in faults_of(doubled(40))[0][1]
    chain = {f"s{n}": {"$ref": f"#/$defs/s{n + 1}"} for n in range(2000)}
    endless = {"$ref": "#/$defs/s0", "$defs": {**chain, "s2000": {}}}
    assert "too many references" in faults_of(endless)[0][1]


def value_of(text: str) -> dict[str, Any]:
    return Schema(text).root


@pytest.mark.parametrize(
    ("schema", "looks"),
    [
        ({}, 1),
        ({"type": "object", "properties": {"a": {}, "b": {"enum": [1, 2]}}}, 3),
        ({"enum": ["a", "b", "c"]}, 1),
        ({"enum": [1, 2, 3]}, 4),
        ({"enum": ["a", 0.5, [1, {"b": 0.5}]]}, 1 + 1 + 20 + 1 + 1 + 1 + 20),
        ({"minimum": 1, "multipleOf": 0.5}, 1 + 10 + 20),
        ({"const": [1, 2]}, 3),
        ({"anyOf": [{}, {}, {"not": {}}]}, 5),
        ({"items": {"anyOf": [{}, {}]}}, 3),
        ({"patternProperties": {"a": {}, "b": {}}, "properties": {"c": {}}}, 3),
        ({"allOf": [{"items": {}}, {"items": {}}, {"items": {}}]}, 4),
        (doubled(3), 30),
        ({"properties": {"a": {"$ref": "#"}}}, 4),
        ({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}, 4),
    ],
)
def test_how_often_one_value_is_looked_at(schema: dict[str, Any], looks: int) -> None:
    assert looks_at_one_value(value_of(json.dumps(schema))) == looks
