"""Programs run by the command executor: what they get, and what comes of how they end."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from jobqueued.executors.command import CommandExecutor
from jobqueued.model.job import MAX_RESULT
from jobqueued.model.outcome import OutcomeKind
from tests.executors.conftest import python, task_of

WRITE_ENVIRONMENT = python("import json, os; print(json.dumps(dict(os.environ)))")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")


def own_oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


async def environment(executor: CommandExecutor, **fields: object) -> dict[str, str]:
    task = task_of(*WRITE_ENVIRONMENT, result_from_stdout=True, **fields)  # type: ignore[arg-type]
    outcome = await executor.run(task)
    assert outcome.result is not None, outcome
    return dict(json.loads(outcome.result))


async def test_a_handler_is_told_about_its_job(executor: CommandExecutor) -> None:
    told = await environment(executor, correlation_id="order 7\0", key="customer-1", token="secret")
    assert told["JOB_ID"].startswith("job-")
    assert told["JOB_TYPE"] == "sample"
    assert told["JOB_ATTEMPT"] == "3"
    assert told["JOB_MAX_RETRIES"] == "4"
    assert told["JOB_PRIORITY"] == "7"
    assert told["JOB_CREATED_AT"] == "2023-11-14T22:13:20.123Z"
    assert told["JOB_DEADLINE"] == "2023-11-14T22:15:00.000Z"
    assert told["JOB_CORRELATION_ID"] == "order 7"
    assert told["JOB_KEY"] == "customer-1"
    assert told["JOB_LEASE_TOKEN"] == "secret"
    assert told["JOBQUEUED_URL"] == "http://127.0.0.1:5627"


async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "1")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.delenv("LANG", raising=False)
    executor = CommandExecutor()
    told = await environment(executor)
    await executor.close()
    surroundings = {name for name in told if not name.startswith("JOB")}
    # The interpreter itself adds LC_CTYPE when the locale is C.
    assert surroundings - {"LC_CTYPE"} == {"PATH", "LANG", "HOME", "USER", "LOGNAME", "TZ"}
    assert told["LANG"] == "C.UTF-8"
    assert told["TZ"] == "Europe/Berlin"
    assert told["PATH"].split(os.pathsep)[-1] == str(Path(sys.executable).parent)
    assert "JOB_KEY" not in told
    assert "JOB_CORRELATION_ID" not in told


async def test_the_variables_of_the_type_win(executor: CommandExecutor) -> None:
    told = await environment(executor, env={"LANG": "de_DE.UTF-8", "NAME": "grüße"})
    assert told["LANG"] == "de_DE.UTF-8"
    assert told["NAME"] == "grüße"


async def test_the_payload_is_on_standard_input(executor: CommandExecutor) -> None:
    payload = b'{"n": 123456789012345678901234567890}'
    outcome = await executor.run(task_of("cat", payload=payload, result_from_stdout=True))
    assert outcome.kind is OutcomeKind.COMPLETED
    assert outcome.result == payload
    assert outcome.log == payload


async def test_a_payload_of_five_megabytes_arrives_whole(executor: CommandExecutor) -> None:
    payload = b'"' + b"x" * (5 * 1024 * 1024) + b'"'
    outcome = await executor.run(task_of("wc", "-c", payload=payload, result_from_stdout=True))
    assert outcome.result == str(len(payload)).encode()


async def test_a_payload_nobody_reads_holds_up_nothing(executor: CommandExecutor) -> None:
    payload = b'"' + b"x" * (5 * 1024 * 1024) + b'"'
    outcome = await executor.run(task_of("true", payload=payload))
    assert outcome.kind is OutcomeKind.COMPLETED


async def test_a_handler_cannot_change_its_payload(executor: CommandExecutor) -> None:
    source = "import os; os.pwrite(0, b'x', 0)"
    outcome = await executor.run(task_of(*python(source)))
    assert outcome.kind is OutcomeKind.FAILED
    assert "PermissionError" in (outcome.error or "")


@pytest.mark.parametrize(
    ("written", "result"),
    [
        ('{"a": 1.50}\n', b'{"a": 1.50}'),
        ("  [1,\n 2]  \n", b"[1,\n 2]"),
        ("null", b"null"),
        ("hello\n", b'"hello"'),
        ("two\nlines\n\n", b'"two\\nlines\\n"'),
        ("NaN", b'"NaN"'),
        ('{"a": 1} {"b": 2}', b'"{\\"a\\": 1} {\\"b\\": 2}"'),
        ("\\377", '"\N{REPLACEMENT CHARACTER}"'.encode()),
        ("", None),
        ("\n", None),
    ],
)
async def test_standard_output_is_the_result(
    executor: CommandExecutor, written: str, result: bytes | None
) -> None:
    task = task_of("printf", written.replace("%", "%%"), result_from_stdout=True)
    outcome = await executor.run(task)
    assert outcome.kind is OutcomeKind.COMPLETED
    assert outcome.result == result


async def test_standard_error_is_no_part_of_the_result(executor: CommandExecutor) -> None:
    outcome = await executor.run(
        task_of("sh", "-c", "echo note >&2; echo 7", result_from_stdout=True)
    )
    assert outcome.result == b"7"
    assert outcome.log is not None
    assert sorted(outcome.log.splitlines()) == [b"7", b"note"]


async def test_without_the_setting_there_is_no_result(executor: CommandExecutor) -> None:
    outcome = await executor.run(task_of("sh", "-c", "echo 1; echo 2 >&2; echo 3"))
    assert outcome.result is None
    assert outcome.log == b"1\n2\n3\n"


@pytest.mark.parametrize(("size", "fits"), [(MAX_RESULT, True), (MAX_RESULT + 1, False)])
async def test_a_result_has_a_size_limit(executor: CommandExecutor, size: int, fits: bool) -> None:
    source = f"print('\"' + 'x' * {size - 2} + '\"')"
    outcome = await executor.run(task_of(*python(source), result_from_stdout=True))
    assert outcome.kind is (OutcomeKind.COMPLETED if fits else OutcomeKind.FATAL)
    if not fits:
        assert outcome.result is None
        assert outcome.error == "the result on standard output is larger than 64KiB"


async def test_a_flood_is_no_result(executor: CommandExecutor) -> None:
    outcome = await executor.run(
        task_of("head", "-c", "1000000", "/dev/zero", result_from_stdout=True)
    )
    assert outcome.kind is OutcomeKind.FATAL


@pytest.mark.parametrize(
    ("script", "kind", "error", "code"),
    [
        ("exit 0", OutcomeKind.COMPLETED, None, 0),
        ("exit 3", OutcomeKind.FAILED, "exit code 3", 3),
        ("exit 64", OutcomeKind.FATAL, "exit code 64", 64),
        ("exit 65", OutcomeKind.FATAL, "exit code 65", 65),
        (
            "echo a; echo b; echo c; echo d >&2; exit 1",
            OutcomeKind.FAILED,
            "exit code 1: b\nc\nd",
            1,
        ),
        ("kill -SEGV $$", OutcomeKind.CRASHED, "killed by SIGSEGV", None),
        ("kill -TERM $$", OutcomeKind.CRASHED, "killed by SIGTERM", None),
    ],
)
async def test_how_a_program_ends_decides(
    executor: CommandExecutor, script: str, kind: OutcomeKind, error: str | None, code: int | None
) -> None:
    outcome = await executor.run(task_of("sh", "-c", script))
    assert (outcome.kind, outcome.error, outcome.exit_code) == (kind, error, code)


async def test_what_a_program_used_is_reported(executor: CommandExecutor) -> None:
    source = "held = bytearray(64 << 20)\nwhile __import__('time').process_time() < 0.1: pass"
    outcome = await executor.run(task_of(*python(source)))
    assert 64 << 20 < (outcome.max_rss_bytes or 0) < 128 << 20
    assert 100 <= (outcome.cpu_ms or 0) < 1000


async def test_a_memory_limit_holds(executor: CommandExecutor) -> None:
    source = "held = bytearray(300 << 20)"
    outcome = await executor.run(task_of(*python(source), memory=256 << 20))
    assert outcome.kind is OutcomeKind.FAILED
    assert "MemoryError" in (outcome.error or "")
    assert (await executor.run(task_of(*python(source)))).kind is OutcomeKind.COMPLETED


@pytest.mark.parametrize("memory", [16 << 20, 512 << 20])
async def test_a_handler_cannot_raise_its_memory_limit(
    executor: CommandExecutor, memory: int
) -> None:
    script = "sleep 0.05; ulimit -Hv; ulimit -Sv"
    outcome = await executor.run(task_of("sh", "-c", script, memory=memory))
    assert outcome.log == f"{memory // 1024}\n{memory // 1024}\n".encode()


async def test_a_memory_limit_too_small_to_start_is_explained(executor: CommandExecutor) -> None:
    outcome = await executor.run(task_of(*python("pass"), memory=1 << 20))
    assert outcome.kind in {OutcomeKind.CRASHED, OutcomeKind.FAILED}
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED


async def test_a_handler_stands_alone(executor: CommandExecutor) -> None:
    source = """
        import json, os, resource, signal
        ignored = [int(n) for n in signal.valid_signals()
                   if n not in (signal.SIGPIPE, signal.SIGXFSZ)
                   and signal.getsignal(n) is signal.SIG_IGN]
        with open("/proc/self/status") as file:
            status = dict(line.split(":", 1) for line in file)
        print(json.dumps({
            "leader": os.getsid(0) == os.getpid() == os.getpgid(0),
            "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
            "ignored": ignored,
            "blocked": int(status["SigBlk"], 16),
            "core": resource.getrlimit(resource.RLIMIT_CORE),
            "oom": int(open("/proc/self/oom_score_adj").read()),
        }))
    """
    task = task_of(*python(textwrap.dedent(source)), result_from_stdout=True)
    outcome = await executor.run(task)
    assert outcome.result is not None, outcome
    assert json.loads(outcome.result) == {
        "leader": True,
        "descriptors": [0, 1, 2],
        "ignored": [],
        "blocked": 0,
        "core": [0, 0],
        "oom": max(500, own_oom_score()),
    }


async def test_signals_a_shell_ignored_are_not_ignored_in_handlers() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        executor = CommandExecutor()
        outcome = await executor.run(task_of("sh", "-c", "kill -HUP $$"))
        await executor.close()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.error == "killed by SIGHUP"


async def test_the_working_directory(executor: CommandExecutor, tmp_path: Path) -> None:
    outcome = await executor.run(task_of("pwd", cwd=str(tmp_path)))
    assert outcome.log == f"{tmp_path}\n".encode()


async def test_a_program_named_relative_to_the_working_directory(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    outcome = await executor.run(task_of("./program", cwd=str(tmp_path)))
    assert outcome.log == b"here\n"


@NEEDS_ROOT
async def test_another_user_with_its_home_and_groups(executor: CommandExecutor) -> None:
    nobody = pwd.getpwnam("nobody")
    script = "id -u; id -G; echo $HOME $USER $LOGNAME; echo opened > /dev/stdout; cat /dev/stdin"
    outcome = await executor.run(task_of("sh", "-c", script, user="nobody", payload=b'"p"'))
    groups = " ".join(map(str, os.getgrouplist("nobody", nobody.pw_gid)))
    expected = f'{nobody.pw_uid}\n{groups}\n{nobody.pw_dir} nobody nobody\nopened\n"p"'
    assert outcome.log == expected.encode()


@NEEDS_ROOT
async def test_a_memory_limit_of_another_user(executor: CommandExecutor) -> None:
    task = task_of("sh", "-c", "id -un; ulimit -Hv", user="nobody", memory=64 << 20)
    outcome = await executor.run(task)
    assert outcome.log == b"nobody\n65536\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can change users")
async def test_only_root_can_become_another_user(executor: CommandExecutor) -> None:
    outcome = await executor.run(task_of("true", user="root"))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == "cannot start: the daemon may not become user 'root'; only root can"


async def test_the_own_user_needs_no_privilege(executor: CommandExecutor) -> None:
    outcome = await executor.run(task_of("id", "-u", user=str(os.geteuid())))
    assert outcome.log == f"{os.geteuid()}\n".encode()


async def test_what_cannot_start_says_what_to_do(executor: CommandExecutor, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    script = tmp_path / "script"
    script.write_text("echo 1")
    script.chmod(0o755)
    cases = [
        (task_of("no-such-program"), "'no-such-program': No such file or directory; check"),
        (task_of(str(plain)), "Permission denied; check that it is a program"),
        (task_of(str(script)), "Exec format error; a script needs a first line"),
        (task_of("true", cwd="/no/such/place"), "the working directory '/no/such/place' cannot"),
        (task_of("true", user="no-such-user"), "there is no user 'no-such-user'"),
        (task_of("true", "x" * 200_000), "Argument list too long; the command line"),
        (task_of("true", "x" * 1_000_000), "the command line and `env` are too long"),
        (task_of("true", "\0"), "embedded null byte"),
    ]
    for task, text in cases:
        outcome = await executor.run(task)
        assert outcome.kind is OutcomeKind.FAILED
        assert outcome.error is not None
        assert outcome.error.startswith("cannot start: ")
        assert text in outcome.error
    assert (await executor.run(task_of("true"))).kind is OutcomeKind.COMPLETED


async def test_many_at_once_do_not_mix(executor: CommandExecutor) -> None:
    tasks = [
        task_of("sh", "-c", f"cat; echo {n} >&2; exit {n % 3}", payload=str(n).encode())
        for n in range(60)
    ]
    outcomes = await asyncio.gather(*map(executor.run, tasks))
    assert [outcome.exit_code for outcome in outcomes] == [n % 3 for n in range(60)]
    assert [outcome.log for outcome in outcomes] == [f"{n}{n}\n".encode() for n in range(60)]


async def test_big_orders_wait_until_the_launcher_takes_them(executor: CommandExecutor) -> None:
    arguments = ["x" * 100_000] * 3
    tasks = [task_of("sh", "-c", f"echo {n}", *arguments) for n in range(40)]
    outcomes = await asyncio.gather(*map(executor.run, tasks))
    assert [outcome.log for outcome in outcomes] == [f"{n}\n".encode() for n in range(40)]
