"""The commands of the Makefile, the README and the automation are the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As typed in a shell: the flags of a make that runs these tests do not reach it."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    inherited = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
    environment = {name: text for name, text in os.environ.items() if name not in inherited}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )


def help_text() -> str:
    done = make("help")
    assert done.returncode == 0
    return done.stdout


def test_every_target_is_in_the_readme() -> None:
    targets = re.findall(r"^  (\w+)", help_text(), re.MULTILINE)
    assert {"run", "test", "check", "bench", "fault", "soak", "lock", "clean"} <= set(targets)
    readme = (ROOT / "README.md").read_text()
    assert [target for target in targets if f"make {target}" not in readme] == []


def test_every_target_has_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    declared = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert declared is not None
    shown = re.findall(r"^  (\w+)", help_text(), re.MULTILINE)
    assert sorted(shown) == sorted(declared[1].split())


def test_the_environment_is_not_made_with_its_own_python(tmp_path: Path) -> None:
    """The README puts it into PATH; when it is made anew, that Python goes first."""
    venv.create(tmp_path, with_pip=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        assert shutil.which("python3") == str(tmp_path / "bin" / "python3")
        done = make("--eval=where: ; @command -v $(PYTHON)", "where", f"VENV={tmp_path}")
    assert done.returncode == 0
    assert not done.stdout.startswith(str(tmp_path)), done.stdout


@pytest.mark.parametrize("target", ["check", "lock"])
def test_a_python_without_pip_is_told_before_anything_is_done(tmp_path: Path, target: str) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    environment = tmp_path / "environment"
    done = make(target, f"PYTHON={bare}/bin/python", f"VENV={environment}")
    assert done.returncode == 2
    assert "has no pip" in done.stderr
    assert "apt install python3-pip" in done.stderr
    assert done.stdout == ""
    assert not environment.exists()


def test_automation_runs_the_test_command_of_the_readme_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    first, *commands = script.read_text().splitlines()
    assert first == "#!/usr/bin/env bash"
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make test"]
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)
