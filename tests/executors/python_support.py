"""An application with handlers of every temper, and tasks that call them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from jobqueued.executors.interface import Task
from jobqueued.executors.python import PythonExecutor
from jobqueued.model.job_type import JobType, PythonHandler
from jobqueued.model.outcome import Outcome
from tests.executors.conftest import task_of, until

APPLICATION = """
import asyncio, ctypes, logging, os, subprocess, sys, threading, time
from jobqueued import Fatal, Retry

print("loaded")
held = []
kinds = {"value": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt,
         "fatal": Fatal, "retry": Retry, "memory": MemoryError}


def rest():
    # In naps: Python acts on a signal that comes just before a system call only after the call.
    while True:
        time.sleep(0.01)


def echo(payload):
    return payload


async def echo_later(payload, context):
    await asyncio.sleep(0)
    return [payload, context.id, id(asyncio.get_running_loop())]


def pid(payload):
    return os.getpid()


def tell(payload, context):
    return {
        "id": context.id, "attempt": context.attempt, "type": context.type,
        "payload": context.payload, "created_at": context.created_at.isoformat(),
        "deadline": context.deadline.isoformat(), "correlation_id": context.correlation_id,
        "key": context.key, "max_retries": context.max_retries, "priority": context.priority,
        "token": context.token, "url": context.url,
        "logger": isinstance(context.log, logging.Logger),
    }


def with_default(payload, context=None):
    return context is not None


def any_arguments(*arguments):
    return len(arguments)


class Jobs:
    @staticmethod
    def count(payload):
        return len(payload)


def no_argument():
    pass


def three(payload, context, more):
    pass


number = 7


def environment(payload):
    return dict(os.environ, cwd=os.getcwd(), path=sys.path, stdin=sys.stdin.read())


def raise_it(payload, context):
    print("before")
    kind, *arguments = payload
    raise kinds[kind](*arguments)


async def raise_later(payload, context):
    await asyncio.sleep(0)
    raise_it(payload, context)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raise_unspeakable(payload):
    raise Unspeakable


def chained(payload):
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise Fatal("outer") from error


def returns(payload):
    return eval(payload)


def write(payload, context):
    print("python", end="")
    sys.stderr.write(" error ")
    sys.stderr.flush()
    ctypes.CDLL(None).printf(b"c ")
    os.write(1, b"raw ")
    subprocess.run(["sh", "-c", "printf sub"])
    context.log.info("logged %s", payload)
    logging.getLogger("app").warning("warned")
    print("unfinished", end="")


def flood(payload):
    os.write(1, b"x" * 10_000_000 + b"END")


def write_afterwards(payload):
    def write():
        time.sleep(0.05)
        os.write(1, b"late")
        open(payload, "w").close()
    if payload:
        threading.Thread(target=write).start()


def close_everything(payload):
    sys.stdout.close()
    sys.stderr = None
    raise ValueError("still told")


def spoil(payload):
    print("said")
    for descriptor in payload:
        os.close(descriptor)
    sys.stdout = None if not payload else sys.stdout
    return os.getpid()


def progress(payload, context):
    context.progress(10)
    context.progress(20.5, "half \\ud800")
    for number in range(2000):
        context.progress(50 + number / 100)
    context.extend(1.5)
    while threading.active_count() > 1:
        time.sleep(0.005)
    for wrong in (-1, 101, float("nan")):
        try:
            context.progress(wrong)
        except ValueError:
            continue
        return "taken"
    return "refused"


def spin(payload):
    print("ready", flush=True)
    while True:
        pass


def sleep(payload):
    print("ready", os.getpid(), flush=True)
    rest()


async def sleep_later(payload):
    try:
        print("ready", flush=True)
        await asyncio.sleep(60)
    finally:
        print("tidied")


def tidy(payload):
    try:
        print("ready", flush=True)
        rest()
    finally:
        print("tidied")


def finish_anyway(payload):
    try:
        print("ready", flush=True)
        rest()
    except BaseException:
        return "saved"


def fail_anyway(payload):
    try:
        print("ready", flush=True)
        rest()
    except BaseException:
        raise ValueError("while stopping")


def stubborn(payload):
    while True:
        try:
            print("ready", flush=True)
            rest()
        except BaseException:
            pass


def crash(payload):
    print("ready")
    ctypes.string_at(0)


def leave(payload):
    print("bye")
    os._exit(payload)


def kill(payload):
    os.kill(os.getpid(), payload)


def leak(payload):
    held.append(bytearray(payload))
    return os.getpid()


def fork_and_return(payload):
    if os.fork() == 0:
        return "copy"
    os.wait()
    return "original"


def grandchild(payload):
    child = subprocess.Popen(["sleep", "60"], start_new_session=payload["session"])
    print("ready", child.pid, flush=True)
    if payload["crash"]:
        os._exit(9)
    return child.pid


def use(payload):
    bytearray(payload["bytes"])
    until = time.process_time() + payload["seconds"]
    while time.process_time() < until:
        pass
    source = f"import time\\nwhile time.process_time() < {payload['seconds']}: pass"
    subprocess.run([sys.executable, "-S", "-c", source])


def noise_on_the_line(payload):
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"\\xff" * 100)
        except OSError:
            pass
    rest()
"""


def application(folder: Path, source: str = APPLICATION) -> str:
    """Write the module `app`; the folder to put into `python_path`."""
    (folder / "app.py").write_text(source)
    return str(folder)


def call(
    folder: str,
    function: str,
    payload: object = None,
    *,
    module: str = "app",
    timeout: int = 120_000,
    correlation_id: str | None = None,
    key: str | None = None,
    **handler: object,
) -> Task:
    """One attempt that calls a function of the application."""
    task = task_of(payload=msgspec.json.encode(payload), correlation_id=correlation_id, key=key)
    settings = {"python_path": (folder,), **handler}
    python = PythonHandler(module=module, function=function, **settings)  # type: ignore[arg-type]
    task.job_type = JobType(name="sample", handler=python, timeout=timeout)
    return task


async def started(
    executor: PythonExecutor, task: Task, word: bytes = b"ready"
) -> asyncio.Task[Outcome]:
    """Run it, and wait until the function has said a word."""
    running = asyncio.create_task(executor.run(task))
    await until(lambda: word in task.output.snapshot() or running.done())
    return running


def result(outcome: Outcome) -> object:
    """What the function returned."""
    assert outcome.result is not None, outcome
    return msgspec.json.decode(outcome.result)


Reports = list[tuple[object, ...]]


def executor_with(reports: Reports | None = None, idle_seconds: float = 300.0) -> PythonExecutor:
    """An executor whose hooks write down what they are told."""
    kept: Reports = [] if reports is None else reports

    def hook(name: str) -> Callable[..., None]:
        return lambda *told: kept.append((name, *told))

    return PythonExecutor(
        on_progress=hook("progress"), on_extend=hook("extend"), idle_seconds=idle_seconds
    )
