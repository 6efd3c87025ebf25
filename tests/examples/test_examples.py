"""Every example runs as it stands, with the configuration written at its top."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobqueued.client import BlockingClient
from tests.cli.support import PATIENCE, ROOT, Serving, environment, run_command, until

EXAMPLES = ROOT / "examples"
SERVER = """
[server]
listen = ["127.0.0.1:{port}", "unix:{place}/jobqueued.sock"]
[store]
path = "{place}/jobs.db"
[defaults]
max_retries = 2
"""


class Configured(Serving):
    """A daemon with the configuration of an example, if it knows what that asks for."""

    def __init__(self, place: Path, example: str, **replaced: str) -> None:
        self.place = place
        self.port = free_port()
        text = SERVER.format(place=place, port=self.port) + snippet(EXAMPLES / example)
        for old, new in replaced.items():
            text = text.replace(old.strip("_"), new)
        (place / "jobqueued.toml").write_text(text)
        checked = run_command(place, "check")
        if checked.returncode != 0:
            pytest.skip(f"this daemon does not know the kind: {checked.stderr}")
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def snippet(example: Path) -> str:
    """The TOML at the top of an example, freed of its comment signs and indentation."""
    lines = re.findall(r"^#     (\[types\..+|\w+ = .+)$", example.read_text(), re.MULTILINE)
    assert lines, example
    return "\n".join(lines) + "\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(place: Path, example: str, **replaced: str) -> Iterator[Configured]:
    daemon = Configured(place, example, **replaced)
    try:
        yield daemon
    finally:
        assert daemon.stop() == 0


@contextmanager
def running(place: Path, *command: str) -> Iterator[None]:
    """A program beside the test, ended with everything it started."""
    with (place / "example.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=place, env=environment(place), start_new_session=True,
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
        assert process.poll() is None, (place / "example.log").read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers_at(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_webhook_receiver(tmp_path: Path) -> None:
    port = free_port()
    secret = tmp_path / "notify.secret"
    secret.write_text("whsec_" + base64.b64encode(os.urandom(32)).decode() + "\n")
    secret.chmod(0o600)
    receiver = (sys.executable, str(EXAMPLES / "webhook_receiver.py"), str(secret), str(port))
    with (
        serving(tmp_path, "webhook_receiver.py", _9000=str(port)) as daemon,
        running(tmp_path, *receiver),
    ):
        until(lambda: answers_at(port))
        job = BlockingClient(daemon.url).submit("notify", {"name": "world"}, wait=PATIENCE)
    assert (job.status, job.result) == ("completed", {"greeting": "Hello, world!"})


def test_the_webhook_receiver_refuses_what_is_not_signed(tmp_path: Path) -> None:
    port = free_port()
    secret = tmp_path / "notify.secret"
    secret.write_text("whsec_" + base64.b64encode(os.urandom(32)).decode())
    receiver = (sys.executable, str(EXAMPLES / "webhook_receiver.py"), str(secret), str(port))
    with running(tmp_path, *receiver):
        until(lambda: answers_at(port))
        post = ["curl", "--silent", "--json", "{}", f"http://127.0.0.1:{port}/hooks/notify"]
        done = subprocess.run(post, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "signature" in done.stdout


def test_the_python_module(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "handlers.py", tmp_path)
    with serving(tmp_path, "handlers.py") as daemon:
        client = BlockingClient(daemon.url)
        scored = client.submit("score", {"words": ["one", "three"]}, wait=PATIENCE)
        assert (scored.status, scored.result) == ("completed", {"score": 8})
        empty = client.submit("score", {"words": []}, wait=PATIENCE)
        assert (empty.status, empty.last_error) == ("dead", "there is nothing to score")
        crawled = client.submit("crawl", {"pages": ["a", "b"]}, wait=PATIENCE)
        assert (crawled.status, crawled.result) == ("completed", {"pages": 2, "attempt": 2})


def test_the_remote_worker(tmp_path: Path) -> None:
    program = (sys.executable, str(EXAMPLES / "remote_worker.py"))
    with (
        serving(tmp_path, "remote_worker.py") as daemon,
        running(tmp_path, *program, daemon.url),
    ):
        job = BlockingClient(daemon.url).submit("transcode", {"video": "cat.mov"}, wait=PATIENCE)
    assert (job.status, job.result) == ("completed", {"video": "CAT.MOV"})


def test_the_remote_worker_in_bash(tmp_path: Path) -> None:
    for tool in ("bash", "curl", "jq"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    with (
        serving(tmp_path, "remote_worker.sh") as daemon,
        running(tmp_path, str(EXAMPLES / "remote_worker.sh"), daemon.url),
    ):
        client = BlockingClient(daemon.url)
        said = client.submit("shout", {"text": 'it\'s "loud"'}, wait=PATIENCE)
        assert (said.status, said.result) == ("completed", {"said": 'IT\'S "LOUD"'})
        wrong = client.submit("shout", {"text": 5}, max_retries=0, wait=PATIENCE)
        assert (wrong.status, wrong.last_error) == ("dead", "the payload has no text")


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text()
    examples = [file.name for file in EXAMPLES.iterdir() if file.is_file()]
    assert len(examples) >= 4
    assert [name for name in examples if name not in here] == []
