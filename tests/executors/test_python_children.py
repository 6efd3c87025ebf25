"""The life of Python children: started when needed, kept warm, ended in time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobqueued.executors.interface import StopReason, Task
from jobqueued.executors.python import PythonExecutor
from jobqueued.model.job_type import CommandHandler, JobType
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


async def pids(executor: PythonExecutor, *tasks: Task) -> list[int]:
    """The processes that these tasks ran in, all at once."""
    outcomes = await asyncio.gather(*map(executor.run, tasks))
    return [int(outcome.result or b"0") for outcome in outcomes]


async def test_a_child_is_warm_after_its_first_job(executor: PythonExecutor, app: str) -> None:
    assert executor.children == 0
    first = await executor.run(call(app, "pid"))
    second = await executor.run(call(app, "pid"))
    assert first.result == second.result
    assert (first.log, second.log) == (b"loaded\n", None)


async def test_jobs_at_once_have_a_child_each_and_those_are_kept(
    executor: PythonExecutor, app: str
) -> None:
    first = await pids(executor, *(call(app, "pid") for _ in range(3)))
    second = await pids(executor, *(call(app, "pid") for _ in range(3)))
    assert len(set(first)) == 3
    assert set(second) == set(first)
    assert executor.children == 3


async def test_only_equal_handlers_of_one_type_share_children(
    executor: PythonExecutor, app: str
) -> None:
    same, equal, other = call(app, "pid"), call(app, "pid"), call(app, "pid", env={"A": "1"})
    elsewhere = call(app, "pid")
    elsewhere.job_type = JobType(name="another", handler=elsewhere.job_type.handler)
    found = [(await pids(executor, task))[0] for task in (same, equal, other, elsewhere)]
    assert found[0] == found[1]
    assert len(set(found)) == 3


async def test_a_child_is_replaced_after_its_number_of_jobs(
    executor: PythonExecutor, app: str
) -> None:
    found = [(await pids(executor, call(app, "pid", max_jobs_per_child=2)))[0] for _ in range(5)]
    assert found[0] == found[1] != found[2] == found[3] != found[4]
    await until(lambda: not alive(found[0]) and not alive(found[2]))
    assert alive(found[4])


async def test_recycling_loads_the_code_anew(executor: PythonExecutor, tmp_path: Path) -> None:
    """The source gets another size, so that no cached bytecode passes for it."""
    app = application(tmp_path, "def version(payload): return 1")
    assert result(await executor.run(call(app, "version"))) == 1
    application(tmp_path, "def version(payload): return 1 + 1")
    assert result(await executor.run(call(app, "version"))) == 1
    executor.recycle()
    assert result(await executor.run(call(app, "version"))) == 2


async def test_recycling_lets_a_busy_child_finish_its_job(
    executor: PythonExecutor, tmp_path: Path
) -> None:
    source = """
import os, time
def wait(payload):
    print("ready", flush=True)
    while not os.path.exists(payload):
        time.sleep(0.005)
    return os.getpid()
"""
    app, door = application(tmp_path, source), tmp_path / "door"
    running = await started(executor, call(app, "wait", str(door)))
    executor.recycle()
    assert not running.done()
    door.touch()
    first = result(await running)
    assert isinstance(first, int)
    await until(lambda: not alive(first))
    assert result(await executor.run(call(app, "wait", str(door)))) != first


async def test_a_child_that_does_not_want_to_end_is_killed(
    executor: PythonExecutor, tmp_path: Path
) -> None:
    source = """
import atexit, os, time
atexit.register(time.sleep, 60)
def pid(payload): return os.getpid()
"""
    app = application(tmp_path, source)
    (found,) = await pids(executor, call(app, "pid", kill_grace=100))
    executor.recycle()
    await until(lambda: not alive(found))


async def test_a_child_may_tidy_up_when_it_ends(executor: PythonExecutor, tmp_path: Path) -> None:
    source = f"""
import asyncio, atexit, pathlib
place = pathlib.Path({str(tmp_path)!r})
atexit.register(lambda: place.joinpath("exit").touch())
async def later():
    try:
        await asyncio.sleep(60)
    finally:
        place.joinpath("task").touch()
async def leave(payload):
    global kept
    kept = asyncio.ensure_future(later())
    await asyncio.sleep(0)
"""
    await executor.run(call(application(tmp_path, source), "leave"))
    executor.recycle()
    await until(lambda: executor.children == 0)
    assert {"task", "exit"} <= set(os.listdir(tmp_path))


async def test_idle_children_end_after_a_while(app: str) -> None:
    executor = executor_with(idle_seconds=0.3)
    found = await pids(executor, *(call(app, "pid") for _ in range(2)))
    busy = call(app, "sleep")
    running = await started(executor, busy)
    await until(lambda: executor.children == 1)
    assert not any(map(alive, found))
    assert not running.done()
    busy.stop.kill(StopReason.CANCELLED)
    await running
    (again,) = await pids(executor, call(app, "pid"))
    assert again not in found
    await until(lambda: executor.children == 0)
    await executor.close()


async def test_a_leak_ends_with_the_child_and_not_with_the_jobs(
    executor: PythonExecutor, app: str
) -> None:
    """Each job keeps 32 MiB: the child is replaced before it reaches its limit."""
    task = call(app, "leak", 32 << 20, memory=512 << 20)
    found = []
    for _ in range(20):
        again = call(app, "leak", 32 << 20, memory=512 << 20)
        outcome = await executor.run(again)
        assert outcome.kind is OutcomeKind.COMPLETED
        found.append(result(outcome))
        assert (outcome.max_rss_bytes or 0) < 512 << 20
    assert 2 <= len(set(map(str, found))) <= 4
    assert (await executor.run(task)).kind is OutcomeKind.COMPLETED


async def test_too_much_memory_at_once_fails_the_job_and_ends_the_child(
    executor: PythonExecutor, app: str
) -> None:
    first = result(await executor.run(call(app, "leak", 1, memory=256 << 20)))
    outcome = await executor.run(call(app, "leak", 512 << 20, memory=256 << 20))
    assert outcome.kind is OutcomeKind.FAILED
    assert (outcome.error or "").startswith("MemoryError (app.py:")
    assert result(await executor.run(call(app, "leak", 1, memory=256 << 20))) != first


async def test_a_memory_limit_too_small_to_start(executor: PythonExecutor, app: str) -> None:
    outcome = await executor.run(call(app, "echo", memory=1 << 20))
    assert outcome.kind in {OutcomeKind.CRASHED, OutcomeKind.FAILED}
    assert (await executor.run(call(app, "echo"))).kind is OutcomeKind.COMPLETED


@pytest.mark.parametrize("descriptors", [[1], [2], [1, 2], []])
async def test_a_child_whose_output_leads_nowhere_is_not_used_again(
    executor: PythonExecutor, app: str, descriptors: list[int]
) -> None:
    found = set()
    for _ in range(2):
        task = call(app, "spoil", descriptors)
        outcome = await executor.run(task)
        assert task.output.snapshot().endswith(b"said\n"), outcome
        found.add(result(outcome))
    assert len(found) == 2


async def test_hundreds_of_jobs_come_back_in_their_own_hands(
    executor: PythonExecutor, app: str
) -> None:
    tasks = iter([call(app, "echo", number) for number in range(500)])
    answers: list[tuple[bytes, bytes | None]] = []

    async def worker() -> None:
        for task in tasks:
            answers.append((task.claimed.payload, (await executor.run(task)).result))

    await asyncio.gather(*(worker() for _ in range(5)))
    assert len(answers) == 500
    assert all(payload == answer for payload, answer in answers)
    assert executor.children == 5


async def test_another_kind_of_handler_is_refused(executor: PythonExecutor, app: str) -> None:
    task = call(app, "echo")
    task.job_type = JobType(name="sample", handler=CommandHandler(argv=("true",)))
    with pytest.raises(TypeError, match="is run by command, not by python"):
        await executor.run(task)
