"""Every command in the README is run, in order, as somebody who follows it would."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueued.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PATIENCE = 20.0
SERVERS = {"make run\n": ["--config", "config.example.toml"], "jobqueued serve\n": []}
"""Blocks that start a daemon; what `make run` runs is in the Makefile."""


def needs_a_machine(block: str) -> bool:
    """Whether a block changes the whole machine, or is these tests themselves."""
    return "sudo" in block or "make test" in block


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Newcomer:
    """Somebody in a folder of their own, with a daemon in another terminal."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.exports = ""
        self._daemon: subprocess.Popen[bytes] | None = None
        self.port, self.receiver_port = free_port(), free_port()
        shutil.copy(ROOT / "config.example.toml", place)
        shutil.copytree(ROOT / "examples", place / "examples")
        commands = place / ".venv" / "bin"
        commands.mkdir(parents=True)
        run = f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m jobqueued "$@"'
        self._write_script(commands / "jobqueued", run)
        self._write_script(commands / "python3", run.replace("-m jobqueued ", ""))
        # The slow type sleeps ten times.
        self._write_script(commands / "sleep", "exit 0")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "XDG_RUNTIME_DIR": str(self.place),
        }

    def follow(self, block: str) -> str:
        """Do what a block says; what it prints."""
        if block in SERVERS:
            self.serve(SERVERS[block])
            return ""
        text = block.replace("localhost:5627", f"localhost:{self.port}")
        text = re.sub(r"\b9000\b", str(self.receiver_port), text)
        done = subprocess.run(
            ["sh", "-ec", self.exports + text],
            cwd=self.place,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        self.exports += "".join(re.findall(r"^export .*\n", block, re.MULTILINE))
        return done.stdout

    def serve(self, arguments: list[str]) -> None:
        """Start the daemon in the other terminal, in place of the one that runs there."""
        self.stop()
        for name in ("config.example.toml", "jobqueued.toml"):
            self._choose_port(self.place / name)
        command = self.place / ".venv" / "bin" / "jobqueued"
        with (self.place / "serve.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [command, "serve", *arguments],
                cwd=self.place,
                env=self.environment | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
                stderr=log,
            )
        self.until_logged("ready on", (self.place / "serve.log").read_text().count("ready on") + 1)

    def until_logged(self, words: str, times: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE
        while (log := (self.place / "serve.log").read_text()).count(words) < times:
            assert time.monotonic() < deadline, log
            time.sleep(0.02)

    def stop(self) -> None:
        """Press Ctrl-C there."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGINT)
            assert self._daemon.wait(PATIENCE) == 0

    def _choose_port(self, config: Path) -> None:
        if config.exists():
            text = re.sub(r"^#?listen = .*$", self._listen(), config.read_text(), flags=re.M)
            config.write_text(text)

    def _listen(self) -> str:
        return f'listen = ["127.0.0.1:{self.port}", "unix:{self.place}/jobqueued.sock"]'

    def _write_script(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    if shutil.which("curl") is None or "--json" not in _curl_help():
        pytest.skip("curl 7.82 or newer is not installed")
    someone = Newcomer(tmp_path)
    yield someone
    someone.stop()


def _curl_help() -> str:
    return subprocess.run(["curl", "--help", "all"], capture_output=True, text=True).stdout


def test_it_can_be_followed_from_top_to_bottom(newcomer: Newcomer) -> None:
    printed = {block: newcomer.follow(block) for block in BLOCKS if not needs_a_machine(block)}
    newcomer.until_logged("configuration reloaded")
    told = "".join(printed.values())
    assert "urn:jobqueued:problem" not in told
    first = next(block for block in BLOCKS if block.startswith("curl"))
    assert json.loads(printed[first])["result"] == {"greeting": "Hello, world!"}
    for words in (
        "attempt 3 works",
        "this type always fails",
        "5 types",
        "8 types",
        '"openapi"',
        "checked",
        "{'score': 7}",
    ):
        assert words in told, words


def test_the_type_it_adds_runs(newcomer: Newcomer) -> None:
    own = next(block for block in BLOCKS if "jobqueued init" in block)
    newcomer.exports = 'export PATH="$PWD/.venv/bin:$PATH"\n'
    newcomer.follow(own)
    newcomer.follow("jobqueued serve\n")
    assert '"status":"completed"' in newcomer.follow("jobqueued submit count 12345 --wait --json")


def test_blocks_that_need_a_machine_are_at_least_shell() -> None:
    machine = [block for block in BLOCKS if needs_a_machine(block)]
    assert len(machine) >= 4
    for block in machine:
        done = subprocess.run(["sh", "-nc", block], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), block


def test_every_file_and_command_that_is_named_exists() -> None:
    text = "\n".join(BLOCKS)
    files = re.findall(r"(?<![\w/.])(contrib/\S+|examples/\S+|config\.example\.toml)", text)
    assert len(set(files)) >= 4
    assert [file for file in files if not (ROOT / file).exists()] == []
    commands = set(re.findall(r"(?:^|[`(])jobqueued ([a-z]+)", README, re.MULTILINE))
    assert commands <= set(COMMANDS), commands - set(COMMANDS)


def test_the_places_under_systemd_are_those_of_the_unit() -> None:
    unit = (ROOT / "contrib" / "systemd" / "jobqueued.service").read_text()
    started = re.search(r"^ExecStart=(\S+) serve --config (\S+)$", unit, re.MULTILINE)
    assert started is not None
    install = next(block for block in BLOCKS if "systemctl enable" in block)
    assert all(place in install for place in started.groups())


def test_every_exit_code_is_explained() -> None:
    told = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", README, re.MULTILINE)
            for code in row.split(",")}  # fmt: skip
    source = "".join(path.read_text() for path in (ROOT / "jobqueued").rglob("*.py"))
    used = {int(code) for code in re.findall(r"exit_code = (\d+)", source)}
    assert used | {0, 2, 74, 130, 141} == told
