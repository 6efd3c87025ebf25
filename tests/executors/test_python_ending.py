"""Python handlers that are stopped, that crash, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobqueued.executors.interface import StopReason
from jobqueued.executors.launcher_link import PACKAGE_ROOT
from jobqueued.executors.python import PythonExecutor
from jobqueued.model.outcome import OutcomeKind
from tests.executors.conftest import alive, until
from tests.executors.python_support import application, call, executor_with, result, started


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    running = executor_with()
    yield running
    await running.close()


@pytest.fixture
def app(tmp_path: Path) -> str:
    return application(tmp_path)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (StopReason.TIMEOUT, OutcomeKind.TIMEOUT, "timed out after 2m"),
        (StopReason.CANCELLED, OutcomeKind.CANCELLED, "cancelled"),
        (StopReason.INTERRUPTED, OutcomeKind.INTERRUPTED, "interrupted by a shutdown"),
    ],
)
async def test_a_loop_without_end_is_stopped(
    executor: PythonExecutor, app: str, reason: StopReason, kind: OutcomeKind, text: str
) -> None:
    task = call(app, "spin")
    running = await started(executor, task)
    task.stop.ask(reason)
    outcome = await running
    assert outcome.kind is kind
    place = re.escape(f"{app}/app.py") + r":\d+ in spin"
    expected = rf"{text} \(killed by SIGTERM\): jobqueued.Stopped: {place}"
    assert re.fullmatch(expected, outcome.error or "")
    assert b"in spin\n" in (outcome.log or b"")
    assert b"<jobqueued>" not in (outcome.log or b"")
    await until(lambda: executor.children == 0)


@pytest.mark.parametrize("function", ["tidy", "sleep_later"])
async def test_a_stopped_function_can_tidy_up(
    executor: PythonExecutor, app: str, function: str
) -> None:
    task = call(app, function)
    running = await started(executor, task)
    task.stop.ask(StopReason.CANCELLED)
    outcome = await running
    assert outcome.kind is OutcomeKind.CANCELLED
    assert b"tidied" in (outcome.log or b"")


async def test_a_function_may_finish_within_its_grace(executor: PythonExecutor, app: str) -> None:
    task = call(app, "finish_anyway")
    running = await started(executor, task)
    task.stop.ask(StopReason.TIMEOUT)
    outcome = await running
    assert (outcome.kind, outcome.result) == (OutcomeKind.COMPLETED, b'"saved"')
    await until(lambda: executor.children == 0)


async def test_a_failure_while_stopping_is_still_the_stop(
    executor: PythonExecutor, app: str
) -> None:
    task = call(app, "fail_anyway")
    running = await started(executor, task)
    task.stop.ask(StopReason.TIMEOUT)
    outcome = await running
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.error == ("timed out after 2m (killed by SIGKILL): ValueError: while stopping")
    assert executor.children == 0


async def test_after_the_grace_comes_sigkill(executor: PythonExecutor, app: str) -> None:
    task = call(app, "stubborn", kill_grace=200)
    running = await started(executor, task)
    began = time.monotonic()
    task.stop.ask(StopReason.TIMEOUT)
    outcome = await running
    assert time.monotonic() - began >= 0.2
    assert outcome.error == "timed out after 2m (killed by SIGKILL): ready"


async def test_killing_does_not_wait_for_the_grace(executor: PythonExecutor, app: str) -> None:
    task = call(app, "stubborn", kill_grace=120_000)
    running = await started(executor, task)
    task.stop.ask(StopReason.INTERRUPTED)
    task.stop.kill(StopReason.CANCELLED)
    assert (await running).kind is OutcomeKind.INTERRUPTED


async def test_stopping_hurts_no_neighbour(executor: PythonExecutor, app: str) -> None:
    first, second = call(app, "sleep"), call(app, "sleep")
    runs = [await started(executor, task) for task in (first, second)]
    first.stop.ask(StopReason.CANCELLED)
    await runs[0]
    assert not runs[1].done()
    assert alive(int(second.output.snapshot().split()[-1]))
    second.stop.kill(StopReason.CANCELLED)
    assert (await runs[1]).kind is OutcomeKind.CANCELLED


async def test_what_is_stopped_before_it_starts_never_runs(
    executor: PythonExecutor, app: str
) -> None:
    task = call(app, "echo")
    task.stop.ask(StopReason.CANCELLED)
    outcome = await executor.run(task)
    assert outcome.error == "cancelled before it was started"
    assert executor.children == 0


async def test_a_stop_while_the_child_starts(executor: PythonExecutor, app: str) -> None:
    task = call(app, "spin")
    running = asyncio.create_task(executor.run(task))
    await until(lambda: executor.children == 1)
    task.stop.ask(StopReason.CANCELLED)
    assert (await running).kind is OutcomeKind.CANCELLED


async def test_cancelling_the_run_kills_the_child(executor: PythonExecutor, app: str) -> None:
    task = call(app, "stubborn")
    running = await started(executor, task)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert executor.children == 0
    assert task.output.closed


@pytest.mark.parametrize(
    ("function", "payload", "error", "code"),
    [
        ("crash", None, r"killed by SIGSEGV: in string_at \(__init__\.py:\d+\)", None),
        ("leave", 0, "exit code 0 before the function returned: bye", 0),
        ("leave", 3, "exit code 3 before the function returned: bye", 3),
        ("kill", signal.SIGTERM, "killed by SIGTERM.*", None),
        (
            "kill",
            signal.SIGKILL,
            "killed by SIGKILL, perhaps because the machine ran out of memory.*",
            None,
        ),
        (
            "noise_on_the_line",
            None,
            "the handler wrote into the line between its process and the daemon",
            None,
        ),
    ],
)
async def test_a_crash_costs_only_its_job(
    executor: PythonExecutor, app: str, function: str, payload: object, error: str, code: int | None
) -> None:
    neighbour = call(app, "sleep")
    running = await started(executor, neighbour)
    outcome = await executor.run(call(app, function, payload))
    assert (outcome.kind, outcome.exit_code) == (OutcomeKind.CRASHED, code)
    assert re.fullmatch(error, outcome.error or "", re.DOTALL), outcome.error
    assert not running.done()
    neighbour.stop.kill(StopReason.CANCELLED)
    await running


async def test_the_next_job_gets_a_fresh_child(executor: PythonExecutor, app: str) -> None:
    """One after another in the same group of children."""
    assert (await executor.run(call(app, "kill", signal.SIGSEGV))).kind is OutcomeKind.CRASHED
    assert (await executor.run(call(app, "kill", 0))).kind is OutcomeKind.COMPLETED
    assert (await executor.run(call(app, "kill", signal.SIGABRT))).kind is OutcomeKind.CRASHED
    assert (await executor.run(call(app, "kill", 0))).kind is OutcomeKind.COMPLETED


async def test_a_child_that_died_at_rest_costs_no_job(executor: PythonExecutor, app: str) -> None:
    """The event loop stands still until the child is dead: the next job finds out by itself."""
    child = result(await executor.run(call(app, "pid")))
    assert isinstance(child, int)
    os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        os.sched_yield()
    outcome = await executor.run(call(app, "pid"))
    assert outcome.kind is OutcomeKind.COMPLETED
    assert result(outcome) != child


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("crash", [True, False])
async def test_a_grandchild_with_the_pipe_does_not_keep_the_job_open(
    executor: PythonExecutor, app: str, session: bool, crash: bool
) -> None:
    began = time.monotonic()
    outcome = await executor.run(call(app, "grandchild", {"session": session, "crash": crash}))
    assert time.monotonic() - began < 20
    assert outcome.kind is (OutcomeKind.CRASHED if crash else OutcomeKind.COMPLETED)
    grandchild = int((outcome.log or b"").split()[-1])
    assert alive(grandchild) is not crash
    executor.recycle()
    await until(lambda: not alive(grandchild))


async def test_a_forked_copy_does_not_answer(executor: PythonExecutor, app: str) -> None:
    for _ in range(3):
        assert result(await executor.run(call(app, "fork_and_return"))) == "original"
    assert executor.children == 1


async def test_a_killed_launcher_loses_what_runs_and_is_replaced(
    executor: PythonExecutor, app: str
) -> None:
    task = call(app, "sleep")
    running = await started(executor, task)
    child = int(task.output.snapshot().split()[-1])
    os.kill(parent_of(child), signal.SIGKILL)
    outcome = await running
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.error == "the process launcher died while the handler ran"
    await until(lambda: not alive(child))
    assert result(await executor.run(call(app, "echo", 1))) == 1


async def test_closing_ends_everything(app: str) -> None:
    executor = executor_with()
    resting = result(await executor.run(call(app, "pid")))
    assert isinstance(resting, int)
    task = call(app, "stubborn", kill_grace=120_000)
    running = await started(executor, task)
    descriptors = len(os.listdir("/proc/self/fd"))
    await executor.close()
    outcome = await running
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.error == "the daemon stopped while the handler ran"
    assert executor.children == 0
    assert not alive(resting)
    assert len(os.listdir("/proc/self/fd")) <= descriptors - 5
    await executor.close()


async def test_no_descriptor_is_left_open(executor: PythonExecutor, app: str) -> None:
    await executor.run(call(app, "echo"))
    before, tasks_before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    tasks = [call(app, "leave", 1), call(app, "missing"), call(app, "echo", interpreter="/none")]
    await asyncio.gather(*(executor.run(task) for task in tasks))
    await until(lambda: executor.children == 1)
    assert len(os.listdir("/proc/self/fd")) == before
    await until(lambda: len(asyncio.all_tasks()) == tasks_before, 2.0)


DAEMON = """
import asyncio, os, sys
sys.path[:0] = [sys.argv[1]]
from tests.executors.python_support import call, executor_with, started
async def main():
    executor = executor_with()
    resting = await executor.run(call(sys.argv[2], "pid"))
    task = call(sys.argv[2], "stubborn")
    await started(executor, task)
    with open(f"/proc/{resting.result.decode()}/stat") as file:
        launcher = file.read().rpartition(")")[2].split()[1]
    with open(f"/proc/{launcher}/task/{launcher}/children") as file:
        print(launcher, file.read(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("launcher_too", [False, True])
def test_children_die_with_the_daemon(app: str, launcher_too: bool) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(PACKAGE_ROOT), app], stdout=subprocess.PIPE
    )
    with daemon:
        assert daemon.stdout is not None
        launcher, *children = map(int, daemon.stdout.readline().split())
        assert len(children) == 2
        assert all(map(alive, children))
        daemon.kill()
        if launcher_too:
            os.kill(launcher, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(alive, [launcher, *children])) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, [launcher, *children]))
