"""What holds for the files of the repository as a whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:root|Users)/\w|[.]pyenv/|/site-packages[/]")
REGISTRIES = re.compile(
    r"pypi\.(?:org|python)|pythonhosted\.|--(?:extra-)?index-url|--trusted[-]host"
)


def shipped_files() -> list[Path]:
    """Tracked files, and those about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for file in shipped_files():
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    assert lines_matching(MACHINE_PATHS) == []


def test_no_file_names_this_checkout() -> None:
    assert lines_matching(re.compile(re.escape(str(ROOT)) + r"(?![\w-])")) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_matching(REGISTRIES) == []


def test_the_changelog_has_room_for_what_comes_next() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_links_in_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_folder_picture_in_the_readme_is_true() -> None:
    readme = (ROOT / "README.md").read_text()
    picture = readme.split("```\njobqueued/\n")[1].split("```")[0]
    inside = re.findall(r"^  ([\w./]+)", picture, re.MULTILINE)
    beside = re.findall(r"^([\w./]+)", picture, re.MULTILINE)
    drawn = [ROOT / "jobqueued" / name for name in inside] + [ROOT / name for name in beside]
    assert [place for place in drawn if not place.exists()] == []
    real = {entry.name for entry in (ROOT / "jobqueued").iterdir() if entry.is_dir()}
    assert real - {"__pycache__"} == {name.rstrip("/") for name in inside if name.endswith("/")}
