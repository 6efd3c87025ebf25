"""The launcher process: its death, the daemon's death, and what stays open."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import StopReason
from jobqueued.executors.launcher_link import PACKAGE_ROOT, LauncherLink
from jobqueued.model.outcome import OutcomeKind
from tests.executors.conftest import alive, task_of, until

CHILDREN_FAULTS = 8
"""Field of /proc/PID/stat, counted after the name: page faults of collected children."""


def wait_until_reported(launcher: int) -> None:
    """Hold the event loop up until the launcher has started, collected and reported a handler."""
    deadline = time.monotonic() + 5
    seen = False
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()
        collected = int(stat[CHILDREN_FAULTS]) > 0
        if seen and collected and stat[0] == "S":
            return
        seen = collected
        time.sleep(0.01)
    pytest.fail("the launcher reported nothing")


def kill_and_wait(pid: int) -> None:
    """Hold the event loop up until a process is dead."""
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.001)


async def test_a_killed_launcher_loses_its_tasks_and_is_replaced(
    executor: CommandExecutor,
) -> None:
    tasks = [
        task_of("sh", "-c", "setsid sleep 60 & sleep 60 & echo ready $$ $!; wait") for _ in range(3)
    ]
    running = [asyncio.create_task(executor.run(task)) for task in tasks]
    await until(lambda: all(b"\n" in task.output.snapshot() for task in tasks))
    first = executor.launcher_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    outcomes = await asyncio.gather(*running)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.LOST}
    assert outcomes[0].error == "the process launcher died while the handler ran"
    for task in tasks:
        pids = [int(word) for word in task.output.snapshot().split()[1:]]
        assert not any(map(alive, pids))
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED
    assert executor.launcher_pid not in {None, first}
    assert not alive(first)


async def test_a_task_right_after_the_launcher_died_never_hangs(executor: CommandExecutor) -> None:
    for _ in range(5):
        assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED
        assert executor.launcher_pid is not None
        os.kill(executor.launcher_pid, signal.SIGKILL)
        outcome = await executor.run(task_of("true"))
        assert outcome.kind in {OutcomeKind.LOST, OutcomeKind.COMPLETED}


async def test_what_a_dead_launcher_reported_still_counts(executor: CommandExecutor) -> None:
    """The report waits in the socket, and the next order is what finds the launcher dead."""
    assert executor.launcher_pid is not None
    first = task_of("true")
    running = asyncio.create_task(executor.run(first))
    await asyncio.sleep(0)
    wait_until_reported(executor.launcher_pid)
    kill_and_wait(executor.launcher_pid)
    second = asyncio.create_task(executor.run(task_of("true")))
    assert (await running).kind is OutcomeKind.COMPLETED
    assert (await second).kind in {OutcomeKind.LOST, OutcomeKind.COMPLETED}


async def test_signals_to_the_launcher_change_nothing(executor: CommandExecutor) -> None:
    assert executor.launcher_pid is not None
    await executor.run(task_of("true"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        os.kill(executor.launcher_pid, number)
        assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED
    assert os.getsid(executor.launcher_pid) == executor.launcher_pid


async def test_closing_ends_everything() -> None:
    executor = CommandExecutor()
    await executor.start()
    launcher = executor.launcher_pid
    task = task_of("sh", "-c", "trap '' TERM; sleep 60 & echo $$ $!; wait")
    running = asyncio.create_task(executor.run(task))
    await until(lambda: b"\n" in task.output.snapshot())
    await executor.close()
    outcome = await running
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.error == "the daemon stopped while the handler ran"
    assert launcher is not None
    assert not any(map(alive, [launcher, *map(int, task.output.snapshot().split())]))


async def test_closing_twice_or_unused_is_fine() -> None:
    executor = CommandExecutor()
    await executor.close()
    await executor.run(task_of("true"))
    await executor.close()
    await executor.close()
    assert executor.launcher_pid is None


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_no_descriptor_is_left_open(executor: CommandExecutor, tmp_path: Path) -> None:
    await executor.run(task_of("true"))
    assert executor.launcher_pid is not None
    of_launcher = f"/proc/{executor.launcher_pid}/fd"
    before, before_launcher = descriptors(), len(os.listdir(of_launcher))
    for _ in range(10):
        await asyncio.gather(
            *(executor.run(task_of("true")) for _ in range(14)),
            executor.run(task_of("cat", payload=b"1", result_from_stdout=True)),
            executor.run(task_of("sh", "-c", "kill -9 $$")),
            executor.run(task_of("no-such-program")),
            executor.run(task_of("true", user="no-such-user")),
            executor.run(task_of("true", "x" * 1_000_000)),
            executor.run(task_of("sh", "-c", "sleep 60 &")),
        )
        cancelled = asyncio.create_task(executor.run(task_of("sleep", "60")))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    assert descriptors() == before
    assert len(os.listdir(of_launcher)) == before_launcher


async def test_no_descriptor_is_left_open_by_launchers(executor: CommandExecutor) -> None:
    await executor.run(task_of("true"))
    before = descriptors()
    for _ in range(3):
        assert executor.launcher_pid is not None
        os.kill(executor.launcher_pid, signal.SIGKILL)
        await until(lambda: executor.launcher_pid is None)
        assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED
    await until(lambda: descriptors() == before)


async def test_running_out_of_descriptors_puts_the_attempt_off(
    executor: CommandExecutor,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
    try:
        outcome = await executor.run(task_of("true"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (outcome.kind, outcome.retry_after_ms) == (OutcomeKind.INTERRUPTED, 1000)
    assert "Too many open files" in (outcome.error or "")
    assert descriptors() == before
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED


async def test_cancelling_an_order_that_waits_starts_nothing(
    executor: CommandExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders of 300 KB fill the socket of a launcher that does not read, for it has much to do."""
    monkeypatch.setattr(LauncherLink, "_wake_launcher", lambda self: None)
    assert executor.launcher_pid is not None
    await executor.run(task_of("true"))
    os.kill(executor.launcher_pid, signal.SIGSTOP)
    arguments = ["x" * 100_000] * 3
    tasks = [task_of("sh", "-c", f"touch {tmp_path}/{n}; sleep 60", *arguments) for n in range(12)]
    running = [asyncio.create_task(executor.run(task)) for task in tasks]
    await asyncio.sleep(0.05)
    for task in running:
        task.cancel()
    os.kill(executor.launcher_pid, signal.SIGCONT)
    await asyncio.gather(*running, return_exceptions=True)
    assert all(task.cancelled() for task in running)
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED
    assert len(os.listdir(tmp_path)) < 12


async def test_a_launcher_that_somebody_stopped_goes_on(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", "echo ready; sleep 60")
    running = asyncio.create_task(executor.run(task))
    await until(lambda: b"ready" in task.output.snapshot())
    assert executor.launcher_pid is not None
    os.kill(executor.launcher_pid, signal.SIGSTOP)
    task.stop.kill(StopReason.CANCELLED)
    assert (await running).kind is OutcomeKind.CANCELLED
    os.kill(executor.launcher_pid, signal.SIGSTOP)
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED


def test_the_launcher_needs_the_standard_library_alone() -> None:
    code = (
        f"import sys; sys.path.append({str(PACKAGE_ROOT)!r}); import jobqueued.executors.launcher;"
        "print(*sorted(n for n in sys.modules if n.split('.')[0] not in sys.stdlib_module_names))"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.split() == [
        "__main__",
        "jobqueued",
        "jobqueued.executors",
        "jobqueued.executors.launcher",
        "jobqueued.executors.processes",
        "jobqueued.executors.spawn",
    ]


DAEMON = """
import asyncio, fcntl, os, sys
sys.path.insert(0, sys.argv[2])
from tests.executors.conftest import task_of
from jobqueued.executors.command import CommandExecutor

async def main():
    lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    executor = CommandExecutor(pass_fds=(lock,))
    script = "trap '' TERM HUP; sleep 60 & setsid sleep 60 & echo $$ $!; wait"
    tasks = [task_of("sh", "-c", script) for _ in range(5)]
    running = [asyncio.create_task(executor.run(task)) for task in tasks]
    while not all(task.output.snapshot().count(b"\\n") for task in tasks):
        await asyncio.sleep(0.01)
    pids = b" ".join(task.output.snapshot().strip() for task in tasks).decode()
    print(executor.launcher_pid, pids, flush=True)
    await asyncio.gather(*running)

asyncio.run(main())
"""


def locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_handlers_die_with_the_daemon_and_keep_its_lock_until_then(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", DAEMON, str(lock), str(PACKAGE_ROOT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        launcher, *pids = map(int, daemon.stdout.readline().split())
        assert len(pids) == 10
        assert all(map(alive, [launcher, *pids]))
        os.kill(launcher, signal.SIGSTOP)
        daemon.kill()
        daemon.wait()
    assert locked(lock)
    os.kill(launcher, signal.SIGCONT)
    began = time.monotonic()
    while locked(lock):
        assert time.monotonic() - began < 5
        time.sleep(0.002)
    assert not any(map(alive, pids))
    assert time.monotonic() - began < 1
