"""The unit files, judged by systemd's own tools and by what the daemon promises."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobqueued.config import load_config

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "contrib" / "systemd"
SERVICE = UNITS / "jobqueued.service"
SOCKET = UNITS / "jobqueued.socket"
DROP_IN = UNITS / "handlers.conf"
WORST_EXPOSURE = 1.6

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def settings(unit: Path) -> dict[str, str]:
    pairs = re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE)
    return dict(pairs)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=30
    )


def installed_copy(folder: Path) -> Path:
    """The units as they would be installed, with a program that exists on this machine."""
    program = shutil.which("true")
    assert program is not None
    text = SERVICE.read_text().replace("/usr/bin/jobqueued ", f"{program} ")
    service = folder / SERVICE.name
    service.write_text(text)
    shutil.copy(SOCKET, folder)
    return service


@needs_systemd
def test_verify_finds_nothing(tmp_path: Path) -> None:
    service = installed_copy(tmp_path)
    result = analyze("verify", "--man=no", str(service), str(tmp_path / SOCKET.name))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@needs_systemd
def test_verify_does_notice_a_mistake(tmp_path: Path) -> None:
    service = installed_copy(tmp_path)
    service.write_text(service.read_text().replace("KillMode=mixed", "KillMode=mixd"))
    assert "mixd" in analyze("verify", "--man=no", str(service)).stderr


@needs_systemd
def test_every_line_of_the_drop_in_is_valid(tmp_path: Path) -> None:
    service = installed_copy(tmp_path)
    folder = tmp_path / "jobqueued.service.d"
    folder.mkdir()
    opened, count = re.subn(r"^#(?=[A-Z]\w+=)", "", DROP_IN.read_text(), flags=re.MULTILINE)
    assert count > 10
    (folder / DROP_IN.name).write_text(opened)
    result = analyze("verify", "--man=no", str(service))
    assert (result.returncode, result.stderr) == (0, "")


@needs_systemd
def test_the_sandbox_is_tight() -> None:
    result = analyze("security", "--offline=true", "--no-pager", str(SERVICE))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", result.stdout)
    assert found is not None, result.stderr
    assert float(found[1]) <= WORST_EXPOSURE


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers")
def test_the_user_can_be_created() -> None:
    result = subprocess.run(
        ["systemd-sysusers", "--dry-run", str(UNITS / "jobqueued.sysusers.conf")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (result.returncode, "Failed" in result.stderr) == (0, False), result.stderr


def test_the_stop_timeout_is_above_the_sum_of_the_stages() -> None:
    shutdown = load_config(ROOT / "config.example.toml").shutdown
    limit = int(settings(SERVICE)["TimeoutStopSec"].removesuffix("s")) * 1000
    assert limit > shutdown.drain_timeout + shutdown.kill_timeout


def test_a_stop_of_the_daemon_keeps_the_socket_file() -> None:
    service = settings(SERVICE)
    listens_at = Path(settings(SOCKET)["ListenStream"])
    assert listens_at.parent == Path("/run") / service["RuntimeDirectory"]
    assert service["RuntimeDirectoryPreserve"] == "yes"


def test_faults_that_need_a_person_do_not_restart() -> None:
    assert settings(SERVICE)["RestartPreventExitStatus"].split() == ["2", "65", "78"]


def test_nothing_in_the_drop_in_is_active_as_shipped() -> None:
    assert settings(DROP_IN) == {}
