"""Secrets come from files and credentials that are theirs alone, and are never shown."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.pretty import pretty_repr

from jobqueued.config import Config, examine_config, load_config
from jobqueued.config.faults import Faults as Gathered
from jobqueued.config.files import Tree
from jobqueued.config.load import build_config
from jobqueued.model.errors import ConfigError
from tests.config.support import http_of

Load = Callable[[str], Config]
Faults = Callable[[str], list[str]]

HIDDEN = "hidden-from-everybody"
NOBODY = 65534


def http(line: str) -> str:
    return f"[types.x.http]\nurl = 'https://example.com/'\n{line}"


def write(place: Path, content: str | bytes, mode: int = 0o600) -> Path:
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    place.chmod(mode)
    return place


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (HIDDEN, HIDDEN.encode()),
        (f"{HIDDEN}\n", HIDDEN.encode()),
        (f"{HIDDEN}\r\n", HIDDEN.encode()),
        (f"{HIDDEN}\n\n", f"{HIDDEN}\n".encode()),
        (f" {HIDDEN} ", f" {HIDDEN} ".encode()),
        ("whsec_AAEC\n", b"\x00\x01\x02"),
        ("x" * 4096, b"x" * 4096),
    ],
)
def test_a_secret_file(load: Load, tmp_path: Path, content: str, secret: bytes) -> None:
    write(tmp_path / "a.secret", content)
    assert http_of(load(http("secret_file = 'a.secret'")), "x").secrets == (secret,)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_private_file_is_fine(load: Load, tmp_path: Path, mode: int) -> None:
    write(tmp_path / "a.secret", HIDDEN, mode)
    assert http_of(load(http("secret_file = 'a.secret'")), "x").secrets == (HIDDEN.encode(),)


def test_several_secrets_keep_their_order(load: Load, tmp_path: Path) -> None:
    write(tmp_path / "new", "new secret")
    write(tmp_path / "old", "old secret")
    config = load(http(f"secret_file = ['{tmp_path}/new', 'old']"))
    assert http_of(config, "x").secrets == (b"new secret", b"old secret")


def test_a_path_starts_at_the_configuration(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").mkdir()
    write(tmp_path / "secrets" / "a", HIDDEN)
    monkeypatch.chdir("/")
    assert http_of(load(http("secret_file = 'secrets/a'")), "x").secrets == (HIDDEN.encode(),)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666])
def test_a_file_open_to_others(faults: Faults, tmp_path: Path, mode: int) -> None:
    file = write(tmp_path / "a.secret", HIDDEN, mode)
    assert faults(http("secret_file = 'a.secret'")) == [
        f"types.x.http.secret_file: is open to other users: close it with `chmod 600 {file}`"
    ]


FORM = "write the secret into it as plain text, or as whsec_ and base64"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"is empty: {FORM}"),
        ("\n", f"is empty: {FORM}"),
        (" \n", f"is empty: {FORM}"),
        ("whsec_\n", f"has nothing after whsec_: {FORM}"),
        (f"whsec_{HIDDEN}!", f"has something other than base64 after whsec_: {FORM}"),
        (f"{HIDDEN}".encode() + b"\xff", f"is not UTF-8 text: {FORM}"),
        (HIDDEN * 200, "is larger than 4096 bytes, which is no secret"),
    ],
)
def test_what_is_no_secret(
    faults: Faults, tmp_path: Path, content: str | bytes, message: str
) -> None:
    write(tmp_path / "a.secret", content)
    assert faults(http("secret_file = 'a.secret'")) == [f"types.x.http.secret_file: {message}"]


def test_a_file_that_is_not_there(faults: Faults) -> None:
    start = "a relative path starts at the directory of the configuration file"
    assert faults(http(f"secret_file = '{HIDDEN}'")) == [
        f"types.x.http.secret_file: there is no such file; {start}"
    ]


def test_what_is_not_an_ordinary_file(faults: Faults, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir(0o700)
    assert faults(http("secret_file = ['pipe', 'directory', '/dev/null', 'pipe/x']")) == [
        "types.x.http.secret_file[0]: is not an ordinary file",
        "types.x.http.secret_file[1]: is not an ordinary file",
        "types.x.http.secret_file[2]: is not an ordinary file",
        "types.x.http.secret_file[3]: cannot be read: Not a directory",
    ]


@contextlib.contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    file = write(tmp_path / "a.secret", HIDDEN, 0o000)
    table = {"url": "https://example.com/", "secret_file": str(file)}
    tree, gathered = Tree(tmp_path / "c.toml"), Gathered()
    tree.merge(tree.main, {"types": {"x": {"http": table}}}, gathered)
    with (
        as_somebody_without_rights(),
        pytest.raises(ConfigError, match=r"secret_file: may not be read by this user: .*chmod 600"),
    ):
        build_config(tree, gathered, {"STATE_DIRECTORY": "/state"})


def test_who_checks_need_not_have_the_credentials(tmp_path: Path) -> None:
    file = write(tmp_path / "c.toml", http("secret_credential = 'a'"))
    found = examine_config(file, {"STATE_DIRECTORY": "/state"})
    assert (found.faults, len(found.warnings)) == ([], 1)
    assert "secret_credential: needs $CREDENTIALS_DIRECTORY" in found.warnings[0]
    with_directory = {"STATE_DIRECTORY": "/state", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    (fault,) = examine_config(file, with_directory).faults
    assert "is not among the credentials of the daemon" in fault


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("secret_file = 4711", "secret_file: must be the path of a file that holds the secret"),
        ("secret_file = ''", "secret_file: must be the path of a file that holds the secret"),
        ("secret_file = '~/4711'", '"~" is not expanded'),
        ("secret_file = 'whsec_4711'", "is the secret itself: write it to a file, and its path"),
        ("secret_file = []", "secret_file: is empty: it must be the path of a file that holds"),
        ("secret_file = ['/dev/full', 4711]", "secret_file[1]: must be the path of a file"),
        ("secret_file = [" + "'4711'," * 11 + "]", "has 11 entries: at most 10 are allowed"),
        ("secret_file = { path = '4711' }", "secret_file: must be the path of a file"),
        ("secret_credential = 'whsec_4711'", "is the secret itself: name the credential that"),
        ("secret_credential = 'a/4711'", "secret_credential: must be the name of a systemd cred"),
        ("secret_credential = '4711:a'", "secret_credential: must be the name of a systemd cred"),
        ("secret_credential = '..'", "secret_credential: must be the name of a systemd credential"),
        ("secret_credential = ''", "secret_credential: must be the name of a systemd credential"),
        ("secret_credential = 4711", "secret_credential: must be the name of a systemd credential"),
    ],
)
def test_one_fault(faults: Faults, line: str, message: str) -> None:
    (found,) = faults(http(line))
    assert message in found
    assert "4711" not in found


def test_files_and_credentials_together(faults: Faults, tmp_path: Path) -> None:
    write(tmp_path / "a", HIDDEN)
    found = faults(http("secret_file = 'a'\nsecret_credential = 'a'"))
    assert found[0] == "types.x.http: has secret_file and secret_credential: keep one of them"


def with_credentials(tmp_path: Path, line: str, **environment: str) -> Config:
    file = tmp_path / "c.toml"
    file.write_text(http(line))
    return load_config(file, {"STATE_DIRECTORY": "/state", **environment})


def test_credentials(tmp_path: Path) -> None:
    # An access control list of systemd shows as the rights of a group.
    write(tmp_path / "new", "new secret\n", 0o440)
    write(tmp_path / "jobs.old", "old secret", 0o400)
    line = "secret_credential = ['new', 'jobs.old']"
    config = with_credentials(tmp_path, line, CREDENTIALS_DIRECTORY=str(tmp_path))
    assert http_of(config, "x").secrets == (b"new secret", b"old secret")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, r"needs \$CREDENTIALS_DIRECTORY, which a daemon has that has LoadCredential=NAME:"),
        ({"CREDENTIALS_DIRECTORY": "relative"}, r"needs \$CREDENTIALS_DIRECTORY, which a daemon"),
        ({"CREDENTIALS_DIRECTORY": "/"}, "is not among the credentials of the daemon: add LoadC"),
    ],
)
def test_no_such_credential(tmp_path: Path, environment: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"secret_credential: {message}") as caught:
        with_credentials(tmp_path, f"secret_credential = '{HIDDEN}'", **environment)
    assert HIDDEN not in str(caught.value)


def test_a_credential_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "a").symlink_to("a")
    directory = str(tmp_path / "credentials")
    with pytest.raises(ConfigError, match="secret_credential: cannot be read: Too many levels"):
        with_credentials(tmp_path, "secret_credential = 'a'", CREDENTIALS_DIRECTORY=directory)


def test_faults_of_secrets_are_listed_with_the_others(faults: Faults) -> None:
    found = faults(http("secret_file = ['a', 'b']") + "\n[queue]\nmax_depth = 0")
    assert [line.split(": ")[0] for line in found] == [
        "queue.max_depth",
        "types.x.http.secret_file[0]",
        "types.x.http.secret_file[1]",
    ]


def test_the_configuration_can_be_read_without_the_secrets(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(http("secret_file = 'not-there'"))
    config = load_config(file, {"STATE_DIRECTORY": "/state"}, with_secrets=False)
    assert http_of(config, "x").secrets == ()


def test_a_loaded_configuration_shows_no_secret(load: Load, tmp_path: Path) -> None:
    write(tmp_path / "plain", HIDDEN)
    write(tmp_path / "coded", f"whsec_{base64.b64encode(HIDDEN.encode()).decode()}")
    config = load(http("secret_file = ['plain', 'coded']"))
    assert http_of(config, "x").secrets == (HIDDEN.encode(),) * 2
    for text in (repr(config), str(config), pretty_repr(config), repr(http_of(config, "x"))):
        assert HIDDEN not in text


@pytest.mark.parametrize("mode", [0o600, 0o644])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_check_shows_no_secret(tmp_path: Path, mode: int, options: list[str]) -> None:
    write(tmp_path / "a.secret", HIDDEN, mode)
    (tmp_path / "c.toml").write_text(http("secret_file = 'a.secret'"))
    command = [sys.executable, "-m", "jobqueued", "check", "--config", str(tmp_path / "c.toml")]
    done = subprocess.run([*command, *options], capture_output=True, timeout=30, check=False)
    assert done.returncode == (0 if mode == 0o600 else 78)
    assert HIDDEN.encode() not in done.stdout + done.stderr
