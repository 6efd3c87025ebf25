"""What is installed: the locked packages and the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jobqueued import __version__

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "dev.txt"


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    return [Requirement(text) for text in texts]


def locked() -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def test_the_lock_names_no_address() -> None:
    assert [line for line in LOCK.read_text().splitlines() if "://" in line] == []


def test_every_locked_package_has_its_hashes() -> None:
    blocks = re.split(r"\n(?=\S)", LOCK.read_text())
    pinned = [block for block in blocks if "==" in block]
    assert len(pinned) == len(locked()) > 20
    assert [block for block in pinned if "--hash=sha256:" not in block] == []


def test_the_lock_fits_what_is_declared() -> None:
    pins = locked()
    missing = [str(one) for one in declared() if canonicalize_name(one.name) not in pins]
    assert missing == []
    wrong = [
        str(one) for one in declared() if pins[canonicalize_name(one.name)] not in one.specifier
    ]
    assert wrong == []


def test_the_wheel_carries_everything_the_package_needs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=50,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"jobqueued-{__version__}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "jobqueued"
    sources = [file for kind in ("*.py", "*.sql", "py.typed") for file in package.rglob(kind)]
    needed = {str(file.relative_to(ROOT)) for file in sources}
    assert needed | {"jobqueued/config.example.toml"} <= names
