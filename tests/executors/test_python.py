"""Functions called by the Python executor: what they get, and what comes of how they end."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from jobqueued.executors.python import PythonExecutor
from jobqueued.model.job import MAX_RESULT
from jobqueued.model.outcome import OutcomeKind
from tests.executors.python_support import (
    APPLICATION,
    Reports,
    application,
    call,
    executor_with,
    result,
)

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def reports() -> Reports:
    return []


@pytest.fixture
async def executor(reports: Reports) -> AsyncIterator[PythonExecutor]:
    running = executor_with(reports)
    yield running
    await running.close()


@pytest.fixture
def app(tmp_path: Path) -> str:
    return application(tmp_path)


async def test_the_payload_goes_in_and_the_result_comes_out(
    executor: PythonExecutor, app: str
) -> None:
    payload = {"b": [1, None, "grüße"], "a": 1.5}
    outcome = await executor.run(call(app, "echo", payload))
    assert outcome.kind is OutcomeKind.COMPLETED
    assert outcome.result == msgspec.json.encode(payload)
    assert (outcome.error, outcome.exit_code) == (None, None)
    task = call(app, "echo")
    task.claimed = msgspec.structs.replace(task.claimed, payload=b'{"n": ' + b"9" * 30 + b"}")
    assert (await executor.run(task)).result == b'{"n":' + b"9" * 30 + b"}"


async def test_a_function_that_returns_nothing_has_no_result(
    executor: PythonExecutor, app: str
) -> None:
    outcome = await executor.run(call(app, "echo", None))
    assert (outcome.kind, outcome.result) == (OutcomeKind.COMPLETED, None)


async def test_a_payload_of_five_megabytes_arrives_whole(
    executor: PythonExecutor, app: str
) -> None:
    outcome = await executor.run(call(app, "Jobs.count", "x" * 5_000_000))
    assert result(outcome) == 5_000_000


async def test_async_functions_share_one_event_loop(executor: PythonExecutor, app: str) -> None:
    first, second = call(app, "echo_later", 1), call(app, "echo_later", 2)
    answers = [result(await executor.run(task)) for task in (first, second)]
    assert isinstance(answers[0], list)
    loop = answers[0][2]
    assert answers == [
        [1, first.claimed.lease.job_id, loop],
        [2, second.claimed.lease.job_id, loop],
    ]


async def test_the_context_tells_about_the_job(executor: PythonExecutor, app: str) -> None:
    task = call(app, "tell", {"a": 1}, correlation_id="order 7\0", key="customer")
    assert result(await executor.run(task)) == {
        "id": task.claimed.lease.job_id,
        "attempt": 3,
        "type": "sample",
        "payload": {"a": 1},
        "created_at": "2023-11-14T22:13:20.123000+00:00",
        "deadline": "2023-11-14T22:15:00+00:00",
        "correlation_id": "order 7\0",
        "key": "customer",
        "max_retries": 4,
        "priority": 7,
        "token": task.claimed.lease.token,
        "url": "http://127.0.0.1:5627",
        "logger": True,
    }


async def test_only_a_named_second_argument_gets_the_context(
    executor: PythonExecutor, app: str
) -> None:
    assert result(await executor.run(call(app, "with_default"))) is True
    assert result(await executor.run(call(app, "any_arguments"))) == 1


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("missing", "module 'app' ({app}/app.py) has no function 'missing'"),
        ("Jobs.missing", "module 'app' ({app}/app.py) has no function 'Jobs.missing'"),
        ("number", "app:number is no function but int"),
        (
            "no_argument",
            "app:no_argument cannot be called with a payload: too many positional arguments",
        ),
        ("three", "app:three cannot be called with a payload: missing a required argument: 'more'"),
    ],
)
async def test_a_function_that_cannot_be_called_is_fatal(
    executor: PythonExecutor, app: str, function: str, error: str
) -> None:
    outcome = await executor.run(call(app, function))
    assert (outcome.kind, outcome.error) == (OutcomeKind.FATAL, error.format(app=app))


async def test_a_module_that_is_not_there_may_come_later(
    executor: PythonExecutor, tmp_path: Path
) -> None:
    task = call(str(tmp_path), "echo", 1, module="app")
    outcome = await executor.run(task)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == (
        "cannot import 'app': ModuleNotFoundError: No module named 'app'"
        "; check `python_path` and `interpreter`"
    )
    application(tmp_path)
    assert result(await executor.run(call(str(tmp_path), "echo", 1))) == 1


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere' (app.py:1 in <module>)"),
        ("raise SystemExit(3)", "SystemExit: 3 (app.py:1 in <module>)"),
        ("def f(:", "SyntaxError: invalid syntax (app.py, line 1)"),
    ],
)
async def test_a_module_that_cannot_be_imported_fails_with_its_reason(
    executor: PythonExecutor, tmp_path: Path, source: str, error: str
) -> None:
    task = call(application(tmp_path, source), "echo")
    outcome = await executor.run(task)
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, f"cannot import 'app': {error}")
    assert outcome.log is not None
    assert outcome.log.splitlines()[-1].decode() in error.replace(" (app.py, line 1)", "")


@pytest.mark.parametrize("function", ["raise_it", "raise_later"])
async def test_exceptions_decide(executor: PythonExecutor, app: str, function: str) -> None:
    """One after the other in one child: none of them ends it."""
    expected = [
        (["value", "bad"], OutcomeKind.FAILED, "ValueError: bad (app.py:{} in raise_it)", None),
        (["exit", 3], OutcomeKind.FAILED, "SystemExit: 3 (app.py:{} in raise_it)", None),
        (["interrupt"], OutcomeKind.FAILED, "KeyboardInterrupt (app.py:{} in raise_it)", None),
        (["fatal", "never"], OutcomeKind.FATAL, "never", None),
        (["fatal"], OutcomeKind.FATAL, "Fatal", None),
        (["retry", "busy", 1.5], OutcomeKind.FAILED, "busy", 1500),
        (["retry", "", 0], OutcomeKind.FAILED, "asked to be run again", 0),
        (["retry"], OutcomeKind.FAILED, "asked to be run again", None),
    ]
    line = APPLICATION[: APPLICATION.index("    raise kinds")].count("\n") + 1
    for payload, kind, error, after in expected:
        outcome = await executor.run(call(app, function, payload))
        assert (outcome.kind, outcome.retry_after_ms) == (kind, after)
        assert outcome.error == error.format(line)
    assert executor.children == 1


async def test_the_traceback_is_in_the_log_from_where_the_application_begins(
    executor: PythonExecutor, app: str
) -> None:
    outcome = await executor.run(call(app, "raise_later", ["value", "bad"]))
    assert outcome.log is not None
    lines = outcome.log.decode().splitlines()
    assert lines[:3] == ["loaded", "before", "Traceback (most recent call last):"]
    assert f'File "{app}/app.py"' in lines[3]
    assert lines[3].endswith("in raise_later")
    assert lines[-1] == "ValueError: bad"
    assert b"<jobqueued>" not in outcome.log
    outcome = await executor.run(call(app, "chained"))
    assert outcome.error == "outer"
    assert b"KeyError: 'inner'" in (outcome.log or b"")


async def test_an_exception_without_words_is_named(executor: PythonExecutor, app: str) -> None:
    outcome = await executor.run(call(app, "raise_unspeakable"))
    assert outcome.kind is OutcomeKind.FAILED
    assert (outcome.error or "").startswith("app.Unspeakable")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("object", "the return value is not JSON: Object of type type is not JSON serializable"),
        ("float('nan')", "the return value is not JSON: Out of range float values"),
        ("chr(0xd800)", "the return value is not JSON: 'utf-8' codec can't encode"),
        (f"'x' * {MAX_RESULT - 1}", "the return value is larger than 64KiB as JSON"),
    ],
)
async def test_a_result_must_be_json_of_some_size(
    executor: PythonExecutor, app: str, expression: str, error: str
) -> None:
    outcome = await executor.run(call(app, "returns", expression))
    assert (outcome.kind, outcome.result) == (OutcomeKind.FATAL, None)
    assert (outcome.error or "").startswith(error)
    largest = f"'x' * {MAX_RESULT - 2}"
    assert (await executor.run(call(app, "returns", largest))).kind is OutcomeKind.COMPLETED
    assert executor.children == 1


async def test_a_payload_this_python_cannot_read_is_fatal(
    executor: PythonExecutor, app: str
) -> None:
    task = call(app, "echo")
    task.claimed = msgspec.structs.replace(task.claimed, payload=b"[" * 50_000 + b"]" * 50_000)
    outcome = await executor.run(task)
    assert outcome.kind is OutcomeKind.FATAL
    assert "cannot read the payload" in (outcome.error or "")


async def test_output_of_every_source_is_captured_per_job(
    executor: PythonExecutor, app: str
) -> None:
    for payload in ("this", "that"):
        log = (await executor.run(call(app, "write", payload))).log or b""
        for piece in (b"python", b" error ", b"c ", b"raw ", b"sub", b"warned\n", b"unfinished"):
            assert log.count(piece) == 1
        assert log.count(f"INFO logged {payload}\n".encode()) == 1
    assert executor.children == 1


async def test_all_that_was_written_before_the_answer_counts(
    executor: PythonExecutor, app: str
) -> None:
    for _ in range(3):
        outcome = await executor.run(call(app, "flood"))
        assert (outcome.log or b"").endswith(b"xEND")


async def test_output_between_jobs_goes_nowhere(
    executor: PythonExecutor, app: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    await executor.run(call(app, "write_afterwards", str(written)))
    while not written.exists():
        # The event loop stands still, so nobody reads the pipe but the next job.
        os.sched_yield()
    assert (await executor.run(call(app, "write_afterwards"))).log is None
    assert executor.children == 1


async def test_a_handler_that_closes_its_streams_is_still_told_about(
    executor: PythonExecutor, app: str
) -> None:
    for _ in range(2):
        outcome = await executor.run(call(app, "close_everything"))
        assert (outcome.error or "").startswith("ValueError: still told")
        assert b"ValueError: still told" in (outcome.log or b"")
    assert executor.children == 1


async def test_progress_and_more_time(executor: PythonExecutor, app: str, reports: Reports) -> None:
    task = call(app, "progress")
    token = task.claimed.lease.token
    assert result(await executor.run(task)) == "refused"
    assert reports[0] == ("progress", token, 10.0, None)
    assert ("extend", token, 1500) in reports
    assert [report for report in reports if report[0] == "progress"][-1][2] == 69.99
    assert len(reports) < 50


async def test_what_a_function_used_is_reported(executor: PythonExecutor, app: str) -> None:
    busy = await executor.run(call(app, "use", {"seconds": 0.1, "bytes": 64 << 20}))
    after = await executor.run(call(app, "use", {"seconds": 0, "bytes": 0}))
    assert 200 <= (busy.cpu_ms or 0) < 2000
    assert (after.cpu_ms or 0) < 150
    assert 64 << 20 < (busy.max_rss_bytes or 0) < 128 << 20
    assert after.max_rss_bytes == busy.max_rss_bytes
    assert executor.children == 1


async def test_the_surroundings_of_a_child(
    executor: PythonExecutor, app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "1")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "inspect.py").write_text("raise ImportError('not this one')")
    variables = {"LANG": "C", "NAME": "grüße"}
    other = str(tmp_path / "other")
    task = call(app, "environment", python_path=(other, app), env=variables, cwd=str(folder))
    told = result(await executor.run(task))
    assert isinstance(told, dict)
    assert "SECRET_OF_THE_DAEMON" not in told
    assert (told["LANG"], told["NAME"]) == ("C", "grüße")
    assert (told["JOB_TYPE"], told["JOBQUEUED_URL"]) == ("sample", "http://127.0.0.1:5627")
    assert "JOB_ID" not in told
    assert told["cwd"] == str(folder)
    assert told["path"][:3] == [other, app, str(folder)]
    assert "" not in told["path"]
    assert told["stdin"] == ""


@NEEDS_ROOT
@pytest.mark.skipif(not os.access(SYSTEM_PYTHON, os.X_OK), reason="this system has no Python")
async def test_another_user_needs_no_access_to_our_files(
    executor: PythonExecutor, tmp_path: Path
) -> None:
    """The source of the runner is sent, and the standard library serves as the application."""
    folder = str(tmp_path)
    task = call(folder, "stat", "/proc/self", module="os", user="nobody", interpreter=SYSTEM_PYTHON)
    stat = result(await executor.run(task))
    assert isinstance(stat, list)
    assert stat[4] == pwd.getpwnam("nobody").pw_uid


async def test_an_interpreter_that_is_not_there(executor: PythonExecutor, app: str) -> None:
    outcome = await executor.run(call(app, "echo", interpreter="/no/such/python"))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == (
        "cannot start: '/no/such/python': No such file or directory; "
        "check `interpreter`, and the interpreter its first line names"
    )
    outcome = await executor.run(call(app, "echo", interpreter="/bin/true"))
    assert outcome.kind is OutcomeKind.CRASHED
    assert outcome.error == "exit code 0 before the function returned"
    assert result(await executor.run(call(app, "echo", 1, interpreter=sys.executable))) == 1
