"""The file that is sent to Python children: what it needs, and where it runs."""

from __future__ import annotations

import ast
import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobqueued.executors.launcher_link import PACKAGE_ROOT
from jobqueued.executors.python_start import BOOTSTRAP, ERRORS, RUNNER
from jobqueued.model.outcome import Outcome, OutcomeKind
from tests.executors.python_support import application, call, executor_with, result

OLDEST = (3, 8)
NO_OTHER = pytest.param("", marks=pytest.mark.skip(reason="there is no other Python here"))
SOURCES = {"runner": RUNNER, "errors": ERRORS, "bootstrap": BOOTSTRAP.encode()}
FROM_THE_PACKAGE = """
import jobqueued
def where(payload): return jobqueued.__dict__.get("__file__")
def retry(payload): raise jobqueued.Retry("again", after=2)
def fatal(payload): raise jobqueued.Fatal("enough")
async def both(payload, context): return context.attempt
"""


def other_pythons() -> list[str]:
    """Interpreters beside our own that work and are new enough, one of each version."""
    found = {}
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 20)]
    for name in ["/usr/bin/python3", *names]:
        program = shutil.which(name)
        version = program and version_of(program)
        if program and version and OLDEST <= version != sys.version_info[:2]:
            found[version] = program
    return sorted(found.values())


def version_of(program: str) -> tuple[int, ...] | None:
    source = "import sys; print(*sys.version_info[:2])"
    told = subprocess.run([program, "-c", source], capture_output=True, timeout=20)
    return tuple(map(int, told.stdout.split())) if told.returncode == 0 else None


@pytest.mark.parametrize("name", SOURCES)
def test_its_syntax_is_known_to_the_oldest_python(name: str) -> None:
    ast.parse(SOURCES[name], feature_version=OLDEST)


@pytest.mark.parametrize("name", SOURCES)
def test_it_needs_the_standard_library_alone(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCES[name])):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - {"__future__"} <= sys.stdlib_module_names


def test_importing_the_package_loads_nothing_else() -> None:
    source = "import sys; before = {*sys.modules}; import jobqueued; print({*sys.modules} - before)"
    told = subprocess.run(
        [sys.executable, "-c", source], cwd=PACKAGE_ROOT, capture_output=True, check=True, text=True
    )
    assert ast.literal_eval(told.stdout) <= {"jobqueued", "__future__"}


async def outcomes(folder: str, *functions: str, **handler: object) -> list[Outcome]:
    executor = executor_with()
    try:
        return [await executor.run(call(folder, name, **handler)) for name in functions]  # type: ignore[arg-type]
    finally:
        await executor.close()


async def test_the_package_itself_is_used_where_it_can_be_imported(tmp_path: Path) -> None:
    app = application(tmp_path, FROM_THE_PACKAGE)
    path = (app, str(PACKAGE_ROOT))
    where, retry, fatal = await outcomes(app, "where", "retry", "fatal", python_path=path)
    assert result(where) == str(PACKAGE_ROOT / "jobqueued" / "__init__.py")
    assert (retry.kind, retry.error, retry.retry_after_ms) == (OutcomeKind.FAILED, "again", 2000)
    assert (fatal.kind, fatal.error) == (OutcomeKind.FATAL, "enough")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=50)
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("folder_of_that_name", [False, True])
async def test_the_errors_are_there_without_the_package(
    tmp_path: Path, bare_python: str, folder_of_that_name: bool
) -> None:
    app = application(tmp_path, FROM_THE_PACKAGE)
    if folder_of_that_name:
        (tmp_path / "jobqueued").mkdir()
    functions = ("where", "retry", "fatal")
    where, retry, fatal = await outcomes(app, *functions, interpreter=bare_python)
    assert (where.kind, where.result) == (OutcomeKind.COMPLETED, None)
    assert (retry.kind, retry.error, retry.retry_after_ms) == (OutcomeKind.FAILED, "again", 2000)
    assert (fatal.kind, fatal.error) == (OutcomeKind.FATAL, "enough")


@pytest.mark.parametrize("program", other_pythons() or [NO_OTHER])
async def test_another_python_runs_it(tmp_path: Path, program: str) -> None:
    app = application(tmp_path, FROM_THE_PACKAGE)
    async with asyncio.timeout(40):
        both, retry = await outcomes(app, "both", "retry", interpreter=program)
    assert result(both) == 3
    assert retry.error == "again"
