"""Reading sections of the merged tree, strictly: every key known, every value in bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobqueued.config.declare import SETTINGS, section_names, settings_of
from jobqueued.config.faults import Faults, Invalid, Keys, did_you_mean, quoted, show
from jobqueued.config.files import Tree
from jobqueued.config.setting import HANDLERS, Setting
from jobqueued.model.job import TYPE_NAME

Values = dict[str, Any]


class Reader:
    """Reads sections and notes every fault on the way."""

    def __init__(self, tree: Tree, faults: Faults, base: Path) -> None:
        self._tree = tree
        self._faults = faults
        self._base = base

    def check_top(self) -> None:
        """Note keys at the top that are no section."""
        for key in self._tree.table:
            if key not in section_names():
                hint = _elsewhere(key, {}) or did_you_mean(key, section_names())
                sections = f": the sections are {', '.join(section_names())}"
                self.fault((key,), f"unknown key{hint or sections}")

    def section(self, name: str) -> Values:
        """What is set in one section, by the name of the setting."""
        return self._table((name,), self._tree.table.get(name, {}), settings_of(name))

    def named_sections(self, name: str) -> dict[str, Values]:
        """What is set in each `[name.NAME]`."""
        tables = self._tree.table.get(name, {})
        if not isinstance(tables, dict):
            self.fault((name,), f"must be tables such as [{name}.example], not {show(tables)}")
            return {}
        settings = settings_of(f"{name}.NAME")
        for key in tables:
            self._check_name(name, key)
        return {key: self._table((name, key), table, settings) for key, table in tables.items()}

    def tables(self, name: str) -> dict[str, dict[str, Any]]:
        """Each `[name.NAME]` as the files have it, whatever is in it."""
        tables = self._tree.table.get(name, {})
        found = tables.items() if isinstance(tables, dict) else ()
        return {key: table for key, table in found if isinstance(table, dict)}

    def fault(self, keys: Keys, message: str) -> None:
        """Note a fault under the file that set the key."""
        self.note(self._faults, keys, message)

    def note(self, faults: Faults, keys: Keys, message: str) -> None:
        """Note something else under the file that set the key."""
        faults.add_key(self._tree.origin(keys), keys, message)

    def _check_name(self, section: str, name: str) -> None:
        if not re.fullmatch(TYPE_NAME, name):
            simpler = re.sub(r"[^a-z0-9_.-]+", "_", name.lower()).strip("_.-")[:128]
            hint = f' (did you mean "{simpler}"?)' if simpler else ""
            rule = "letters a-z, digits, _ . and -, at most 128, the first a letter or digit"
            self.fault((section, name), f"a name is made of {rule}{hint}")

    def _table(
        self, keys: Keys, table: object, settings: Mapping[str, Setting], prefix: str = ""
    ) -> Values:
        if not isinstance(table, dict):
            known = ", ".join(_level(settings, prefix))
            # A text in place of `http` is a URL, which may hold a password.
            shown = "text" if isinstance(table, str) else show(table)
            self.fault(keys, f"must be a table with {known}, not {shown}")
            return {}
        values: Values = {}
        for key, value in table.items():
            values |= self._entry(keys, key, value, settings, prefix)
        return values

    def _entry(
        self, above: Keys, key: str, value: object, settings: Mapping[str, Setting], prefix: str
    ) -> Values:
        keys, name, known = (*above, key), prefix + key, _level(settings, prefix)
        if key not in known:
            hint = _split(keys, value) or _elsewhere(key, settings) or did_you_mean(key, known)
            self.fault(keys, f"unknown key{hint or ': known here are ' + ', '.join(known)}")
            return {}
        is_table = isinstance(value, dict) and any(each.startswith(f"{name}.") for each in settings)
        if name not in settings or is_table:
            return self._table(keys, value, settings, f"{name}.")
        return self._value(keys, value, settings[name])

    def _value(self, keys: Keys, value: object, setting: Setting) -> Values:
        try:
            return {setting.name: setting.kind.read(value, self._base)}
        except Invalid as invalid:
            for inside, message in invalid.faults:
                self.fault((*keys, *inside), message)
            return {}


def _level(settings: Mapping[str, Setting], prefix: str) -> list[str]:
    """The keys known right below `prefix`: `backoff` for `backoff.base`."""
    below = [name.removeprefix(prefix) for name in settings if name.startswith(prefix)]
    return list(dict.fromkeys(name.split(".")[0] for name in below))


def _elsewhere(key: str, settings: Mapping[str, Setting]) -> str:
    """Point to the place where a key of exactly this name belongs."""
    near = [name for name in settings if name.split(".")[-1] == key]
    far = [path for setting in SETTINGS for path in setting.keys if path.split(".")[-1] == key]
    return f' (did you mean "{(near + far)[0]}"?)' if near or far else ""


def _split(keys: Keys, value: object) -> str:
    """`[types.image.resize]` is a table `resize` in `[types.image]`: say so."""
    if keys[0] != "types" or not isinstance(value, dict) or value.keys().isdisjoint(HANDLERS):
        return ""
    name = quoted(".".join(map(str, keys[1:])))
    return f": for a type named {name} write [types.{name}]"
