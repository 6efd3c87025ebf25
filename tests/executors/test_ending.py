"""Handlers that are stopped, that do not want to stop, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from pathlib import Path

import pytest

from jobqueued.executors.command import CommandExecutor
from jobqueued.executors.interface import StopReason, Task
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.executors.conftest import alive, python, task_of, until

IGNORE_TERM = "trap '' TERM; echo ready; while :; do sleep 1; done"


RunningTask = asyncio.Task[Outcome]


async def started(executor: CommandExecutor, task: Task, word: bytes = b"ready") -> RunningTask:
    running = asyncio.create_task(executor.run(task))
    await until(lambda: word in task.output.snapshot() or running.done())
    return running


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (StopReason.TIMEOUT, OutcomeKind.TIMEOUT, "timed out after 2m (killed by SIGTERM): ready"),
        (StopReason.CANCELLED, OutcomeKind.CANCELLED, "cancelled (killed by SIGTERM): ready"),
        (
            StopReason.INTERRUPTED,
            OutcomeKind.INTERRUPTED,
            "interrupted by a shutdown (killed by SIGTERM): ready",
        ),
    ],
)
async def test_stopping_sends_sigterm(
    executor: CommandExecutor, reason: StopReason, kind: OutcomeKind, text: str
) -> None:
    task = task_of("sh", "-c", "echo ready; exec sleep 60")
    running = await started(executor, task)
    task.stop.ask(reason)
    outcome = await running
    assert (outcome.kind, outcome.error) == (kind, text)


async def test_the_whole_group_gets_sigterm(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", "(trap 'echo child; exit' TERM; echo ready; sleep 60 & wait) & wait")
    running = await started(executor, task)
    task.stop.ask(StopReason.CANCELLED)
    assert (await running).kind is OutcomeKind.CANCELLED


async def test_a_handler_may_finish_within_its_grace(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; sleep 60 & wait")
    running = await started(executor, task)
    task.stop.ask(StopReason.TIMEOUT)
    outcome = await running
    assert outcome.kind is OutcomeKind.COMPLETED
    assert outcome.log == b"ready\nsaved\n"


async def test_after_the_grace_comes_sigkill(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", IGNORE_TERM, kill_grace=200)
    running = await started(executor, task)
    began = time.monotonic()
    task.stop.ask(StopReason.TIMEOUT)
    outcome = await running
    assert 0.2 <= time.monotonic() - began < 2
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.error == "timed out after 2m (killed by SIGKILL): ready"


async def test_killing_does_not_wait_for_the_grace(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", IGNORE_TERM, kill_grace=60_000)
    running = await started(executor, task)
    task.stop.ask(StopReason.INTERRUPTED)
    task.stop.kill(StopReason.CANCELLED)
    outcome = await running
    assert outcome.kind is OutcomeKind.INTERRUPTED


async def test_a_stopped_process_is_told_too(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", "trap 'exit 9' TERM; echo ready; kill -STOP $$")
    running = await started(executor, task)
    task.stop.ask(StopReason.CANCELLED)
    outcome = await running
    assert (outcome.kind, outcome.exit_code) == (OutcomeKind.CANCELLED, 9)


async def test_what_is_stopped_before_it_starts_never_runs(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    task = task_of("touch", str(tmp_path / "ran"))
    task.stop.ask(StopReason.CANCELLED)
    outcome = await executor.run(task)
    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.error == "cancelled before it was started"
    assert not (tmp_path / "ran").exists()


async def test_cancelling_the_run_kills_the_group(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", f"sleep 60 & echo $! $$; {IGNORE_TERM}")
    running = await started(executor, task)
    pids = [int(word) for word in task.output.snapshot().split()[:2]]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(map(alive, pids))
    assert task.output.closed


async def test_a_grandchild_with_the_pipe_does_not_keep_the_job_open(
    executor: CommandExecutor,
) -> None:
    began = time.monotonic()
    task = task_of("sh", "-c", "sleep 60 & echo $!")
    outcome = await executor.run(task)
    assert outcome.kind is OutcomeKind.COMPLETED
    assert time.monotonic() - began < 2
    assert not alive(int(outcome.log or b"0"))


HAND_OVER = """
import array, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
    line.recv(1)
print("done")
"""


async def test_a_pipe_held_from_outside_does_not_keep_the_job_open(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    address = str(tmp_path / "line")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        running = asyncio.create_task(executor.run(task_of(*python(HAND_OVER), address)))
        line, _ = await asyncio.to_thread(listener.accept)
    with line:
        _, held, _, _ = socket.recv_fds(line, 1, 1)
        line.send(b"x")
        began = time.monotonic()
        outcome = await running
    assert 0.1 < time.monotonic() - began < 2
    assert outcome.log == b"done\n"
    with pytest.raises(BrokenPipeError):
        os.write(held[0], b"nobody reads")
    os.close(held[0])


ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        if os.fork() > 0:
            os.closerange(1, 3)
            time.sleep(60)
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(f"{os.getppid()} {os.getpid()}")
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        os.closerange(0, 100)
        time.sleep(60)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
"""


@pytest.mark.parametrize("alone", [True, False])
async def test_double_forks_do_not_escape(
    executor: CommandExecutor, tmp_path: Path, alone: bool
) -> None:
    neighbour = task_of("sh", "-c", "echo ready; exec sleep 60")
    running = None if alone else await started(executor, neighbour)
    outcome = await executor.run(task_of(*python(ESCAPE), str(tmp_path / "pids")))
    assert outcome.kind is OutcomeKind.COMPLETED
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(map(alive, pids))
    if running is not None:
        assert not running.done()
        neighbour.stop.kill(StopReason.CANCELLED)
        await running


async def test_an_escape_from_a_long_running_handler_is_found(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    source = ESCAPE.replace("import os, sys, time", "import os, sys, time; time.sleep(1.1)")
    neighbour = task_of("sh", "-c", "echo ready; exec sleep 60")
    running = await started(executor, neighbour)
    await executor.run(task_of(*python(source), str(tmp_path / "pids")))
    assert not any(map(alive, map(int, (tmp_path / "pids").read_text().split())))
    neighbour.stop.kill(StopReason.CANCELLED)
    await running


async def test_an_escape_that_hides_its_token_ends_when_nothing_else_runs(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    script = f"setsid -f env -i sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60'"
    await executor.run(task_of("sh", "-c", f"{script}; while ! [ -s {tmp_path}/pid ]; do :; done"))
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_flood_of_output_stays_bounded(executor: CommandExecutor) -> None:
    size = 100 * 1024 * 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    task = task_of("sh", "-c", f"echo first; head -c {size} /dev/zero; echo last")
    outcome = await executor.run(task)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert outcome.kind is OutcomeKind.COMPLETED
    assert task.output.total == size + len(b"first\nlast\n")
    assert outcome.log is not None
    assert len(outcome.log) < 70 * 1024
    assert outcome.log.startswith(b"first\n")
    assert outcome.log.endswith(b"last\n")
    assert grown < 20 * 1024


async def test_an_endless_writer_is_stopped(executor: CommandExecutor) -> None:
    task = task_of("yes", "ready")
    running = await started(executor, task)
    task.stop.ask(StopReason.TIMEOUT)
    assert (await running).kind is OutcomeKind.TIMEOUT
