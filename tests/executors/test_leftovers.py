"""Processes of a daemon that is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from jobqueued.executors.leftovers import end_leftovers
from tests.executors.conftest import alive, python

Child = subprocess.Popen[bytes]


def child(token: str | None, *argv: str) -> Child:
    environment = {"PATH": os.environ["PATH"], "OTHER": "1"}
    if token is not None:
        environment["JOB_LEASE_TOKEN"] = token
    command = argv or ("sh", "-c", "echo ready; exec sleep 60")
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_processes_of_a_token_are_ended(children: list[Child]) -> None:
    children += [child("one"), child("two"), child("three"), child(None), child("oneone")]
    assert end_leftovers({"one", "two"}) == 2
    assert [alive(process.pid) for process in children] == [False, False, True, True, True]


def test_their_groups_go_with_them(children: list[Child]) -> None:
    script = "env -i sleep 60 & echo $!; exec sleep 60"
    process = subprocess.Popen(
        ["sh", "-c", script],
        env={"JOB_LEASE_TOKEN": "group", "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    children.append(process)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    end_leftovers({"group"})
    deadline = time.monotonic() + 2
    while alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not alive(grandchild)


def test_what_they_start_meanwhile_is_ended_too(children: list[Child]) -> None:
    source = """
import os, time
print("ready", flush=True)
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
    time.sleep(0.002)
"""
    children.append(child("forking", *python(source)))
    assert end_leftovers({"forking"}) >= 1
    assert end_leftovers({"forking"}) == 0


def test_nothing_to_end() -> None:
    began = time.monotonic()
    assert end_leftovers(set()) == 0
    assert end_leftovers({"no such token"}) == 0
    assert time.monotonic() - began < 1


def test_the_caller_is_never_ended() -> None:
    source = """
import sys
sys.path[:0] = sys.argv[1:]
from jobqueued.executors.leftovers import end_leftovers
print(end_leftovers({"mine"}))
"""
    result = subprocess.run(
        [sys.executable, "-c", source, *sys.path],
        env={"JOB_LEASE_TOKEN": "mine"},
        capture_output=True,
        check=True,
    )
    assert result.stdout == b"0\n"
