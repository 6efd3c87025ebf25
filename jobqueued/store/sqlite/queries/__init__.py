"""The SQL, by name."""

from __future__ import annotations

from importlib.resources import files


def _read() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in files(__package__).iterdir():
        if file.name.endswith(".sql"):
            for block in file.read_text().split("-- name: ")[1:]:
                name, statement = block.split("\n", 1)
                statements[name.strip()] = statement.strip()
    return statements


SQL = _read()
