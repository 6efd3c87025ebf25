"""A daemon whose jobs stay where they are, and files of lines for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.support import Done, Serving, environment

PARKED = """
[server]
listen = ["unix:{place}/jobqueued.sock"]
[store]
path = "{place}/jobs.db"
[queue]
max_payload = "1KiB"
max_depth = 1000000

[types.parked]
remote = true
[types.other]
remote = true
[types.gate]
command = ["sh", "-c", "echo at the gate; read word < {place}/gate"]
kill_grace = "100ms"
"""


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """A file of them: bytes as they are, anything else as JSON."""
    with path.open("wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode())
            file.write(b"\n")
    return path


def parked(number: int, **fields: object) -> dict[str, object]:
    """One job as a line."""
    return {"type": "parked", "payload": {"n": number}} | fields


def started(serving: Serving, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command, on its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "jobqueued", *arguments],
        cwd=serving.place,
        env=environment(serving.place),
        **options,
    )


def exported(serving: Serving, *arguments: str) -> list[dict[str, msgspec.Raw]]:
    """Jobs as `export` writes them, newest first, every value as it was written."""
    done: Done = serving.run("export", *arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.encode().splitlines()
    return [msgspec.json.decode(line, type=dict[str, msgspec.Raw]) for line in lines]


def numbers(serving: Serving, *arguments: str) -> list[int]:
    """The numbers in the payloads of the jobs there are, oldest first."""
    found = [json.loads(bytes(job["payload"])) for job in exported(serving, *arguments)]
    return [payload["n"] for payload in reversed(found)]
