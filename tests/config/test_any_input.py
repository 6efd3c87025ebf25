"""Whatever a file holds, it is a configuration or a list of faults: never another exception."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobqueued.config import SETTINGS, Config, load_config
from jobqueued.config.faults import Faults
from jobqueued.config.files import Tree
from jobqueued.config.load import build_config
from jobqueued.model.errors import ConfigError

ENVIRONMENT = {"STATE_DIRECTORY": "/state"}

PARTS = sorted({part for setting in SETTINGS for key in setting.keys for part in key.split(".")})
WORTHY = ["default", "full", "stdout", "30s", "5m", "64KiB", "127.0.0.1:1", "unix:/a", "a/b", "~",
          "https://a.example/b", "payload.url", "*.a.example", "a.b:c", "whsec_AAAA"]  # fmt: skip

names = st.sampled_from(PARTS) | st.text(max_size=10)
scalars = (
    st.none().map(lambda _: datetime.date(2026, 1, 31))
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORTHY)
    | st.text(max_size=20)
    | st.datetimes()
    | st.times()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=30,
)
tables = st.dictionaries(names, values, max_size=6)
sections = st.sampled_from(sorted({key.split(".")[0] for s in SETTINGS for key in s.keys}))
trees = st.dictionaries(sections | names, tables | st.dictionaries(names, tables, max_size=4))


def build(*parsed: dict[str, Any]) -> Config | str:
    faults, tree = Faults(), Tree(Path("/etc/main.toml"))
    for number, table in enumerate(parsed):
        tree.merge(Path(f"/etc/{number}.toml"), table, faults)
    try:
        return build_config(tree, faults, ENVIRONMENT)
    except ConfigError as error:
        return str(error)


@settings(max_examples=120, deadline=None)
@given(trees | tables)
def test_any_table(table: dict[str, Any]) -> None:
    outcome = build(table)
    if isinstance(outcome, str):
        assert all(line.startswith("/etc/") for line in outcome.splitlines())


@settings(max_examples=60, deadline=None)
@given(trees, trees)
def test_any_two_tables(one: dict[str, Any], two: dict[str, Any]) -> None:
    outcome = build(one, two)
    if isinstance(outcome, str):
        assert all(line.startswith("/etc/") for line in outcome.splitlines())


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes(tmp_path_factory: Any, content: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "c.toml"
    file.write_bytes(content)
    with contextlib.suppress(ConfigError):
        assert load_config(file, ENVIRONMENT).files == (file,)


@settings(deadline=None)
@given(st.sampled_from(SETTINGS), values)
def test_a_setting_takes_a_value_or_says_its_key(setting: Any, value: object) -> None:
    first, *rest = setting.keys[0].replace("NAME", "x").split(".")
    table: dict[str, Any] = value if isinstance(value, dict) else {"": value}
    table = {rest[-1]: next(iter(table.values()), value)}
    for part in reversed(rest[:-1]):
        table = {part: table}
    outcome = build({first: table})
    if isinstance(outcome, str):
        allowed = (
            setting.keys[0].replace("NAME", "x"),
            "types.x: does not say how its jobs are run",
            "types.x.http: does not say where to post",
        )
        assert all(line.split(": ", 1)[1].startswith(allowed) for line in outcome.splitlines())
