"""A disk that is really full: a small one, mounted where only the process under test sees it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.store.full_disk import SCENARIOS
from tests.store.support import PATIENCE, run_python

MOUNT = 'mount -t tmpfs -o size=48m tmpfs "$0" && exec "$@"'


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command that runs another one with a small disk on a directory of its own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs `unshare` of util-linux")
    place = tmp_path_factory.mktemp("disk")
    command = (unshare, "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, str(place))
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=PATIENCE)
    if tried.returncode != 0:
        pytest.skip(f"cannot mount a file system of its own here: {tried.stderr.strip()}")
    return command


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_a_full_disk(small_disk: tuple[str, ...], scenario: str) -> None:
    place = str(Path(small_disk[-1]))
    done = run_python("-m", "tests.store.full_disk", scenario, place, wrapper=small_disk)
    assert done.returncode == 0, done.stderr
