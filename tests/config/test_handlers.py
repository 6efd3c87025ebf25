"""Which handler a type has, what fits it, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from jobqueued.config import SETTINGS, Config
from jobqueued.config.declare import defaults_of, settings_of
from jobqueued.config.setting import HANDLERS
from jobqueued.model.job_type import HttpHandler, JobType, PythonHandler, RemoteHandler
from tests.config.support import command_of, http_of, python_of

Load = Callable[[str], Config]
Faults = Callable[[str], list[str]]

CHOICES = {
    "command": "command = ['true']",
    "http": "http.url = 'https://example.com/'",
    "python": "python = 'a.b:c'",
    "remote": "remote = true",
}

EVERYTHING = {
    "result": "'stdout'",
    "fatal_exit_codes": "[1]",
    "python_path": "['lib']",
    "interpreter": "'python3'",
    "max_jobs_per_child": "7",
    "kill_grace": "'1s'",
    "memory": "'1GiB'",
    "env": "{ A = '1' }",
    "cwd": "'/'",
    "user": "'nobody'",
}
FITTING = {
    "command": {"result", "fatal_exit_codes", "kill_grace", "memory", "env", "cwd", "user"},
    "http": set(),
    "python": {"python_path", "interpreter", "max_jobs_per_child", "kill_grace", "memory"}
    | {"env", "cwd", "user"},
    "remote": set(),
}


@pytest.mark.parametrize(("kind", "line"), CHOICES.items())
def test_each_kind(load: Load, kind: str, line: str) -> None:
    assert load(f"[types.x]\n{line}").types["x"].handler.kind == kind


def test_the_kinds_are_those_of_the_model() -> None:
    assert tuple(CHOICES) == HANDLERS


def test_a_webhook_with_only_a_url_is_all_defaults(load: Load) -> None:
    handler = HttpHandler(url="https://example.com/")
    assert load(f"[types.x]\n{CHOICES['http']}").types == {"x": JobType(name="x", handler=handler)}


def test_a_function_alone_is_all_defaults(load: Load) -> None:
    handler = PythonHandler(module="a.b", function="c")
    assert load("[types.x]\npython = 'a.b:c'").types == {"x": JobType(name="x", handler=handler)}


def test_remote(load: Load) -> None:
    job_type = load("[types.x]\nremote = true\nlease = '10s'").types["x"]
    assert job_type == JobType(name="x", handler=RemoteHandler(), lease=10_000)


def test_remote_false_is_as_if_absent(load: Load, faults: Faults) -> None:
    handler = command_of(load("[types.x]\ncommand = ['true']\nremote = false"), "x")
    assert handler.argv == ("true",)
    (found,) = faults("[types.x]\nremote = false")
    assert found.startswith("types.x: does not say how its jobs are run")


@pytest.mark.parametrize(("one", "two"), [*combinations(HANDLERS, 2)])
def test_a_type_has_one_handler(faults: Faults, one: str, two: str) -> None:
    (found,) = faults(f"[types.x]\n{CHOICES[one]}\n{CHOICES[two]}")
    choices = "a type has exactly one of command, http, python or remote"
    assert found == f"types.x: has {one} and {two}: {choices}"


def test_all_four_at_once(faults: Faults) -> None:
    (found,) = faults("[types.x]\n" + "\n".join(CHOICES.values()))
    assert found.startswith("types.x: has command and http and python and remote: a type has")


def test_every_setting_for_some_kinds_only_is_tried_here() -> None:
    partly = [setting for setting in SETTINGS if setting.handlers != HANDLERS]
    assert {setting.first_key for setting in partly} == {*EVERYTHING, *HANDLERS}


@pytest.mark.parametrize("kind", HANDLERS)
def test_what_means_nothing_for_a_kind_is_a_fault(faults: Faults, load: Load, kind: str) -> None:
    lines = [f"{key} = {value}" for key, value in EVERYTHING.items() if key not in FITTING[kind]]
    found = faults(f"[types.x]\n{CHOICES[kind]}\n" + "\n".join(lines))
    assert {line.split(": ")[0] for line in found} == {
        f"types.x.{key}" for key in EVERYTHING.keys() - FITTING[kind]
    }
    assert all(f" means nothing for {kind}: it is for " in line for line in found)
    fitting = [f"{key} = {value}" for key, value in EVERYTHING.items() if key in FITTING[kind]]
    config = load(f"[types.x]\n{CHOICES[kind]}\n" + "\n".join(fitting))
    assert config.types["x"].handler.kind == kind


def test_the_fault_says_what_a_setting_is_for(faults: Faults) -> None:
    assert faults("[types.x]\nremote = true\nresult = 'stdout'\ncwd = '/'") == [
        "types.x.result: means nothing for remote: it is for command only",
        "types.x.cwd: means nothing for remote: it is for command and python only",
    ]


def test_what_means_nothing_in_the_defaults_is_not_applied(load: Load) -> None:
    given = EVERYTHING | {"http": "{ connect_timeout = '1s', ca_file = '/ca' }"}
    known = {setting.first_key for setting in settings_of("defaults").values()}
    text = "\n".join(f"{key} = {value}" for key, value in given.items() if key in known)
    types = "\n".join(f"[types.{kind}]\n{line}" for kind, line in CHOICES.items())
    config = load(f"[defaults]\n{text}\n{types}")
    assert config.types["remote"].handler == RemoteHandler()
    url = "https://example.com/"
    assert http_of(config, "http") == HttpHandler(url=url, connect_timeout=1000, ca_file="/ca")
    assert command_of(config, "command").fatal_exit_codes == {1}


def test_functions_inherit_the_defaults(load: Load, tmp_path: Path) -> None:
    text = """
    [defaults]
    python_path = ["lib"]
    interpreter = "venv/bin/python"
    max_jobs_per_child = 7
    env = { A = "default", B = "default" }
    cwd = "work"
    user = "nobody"
    kill_grace = "1s"
    memory = "1GiB"
    fatal_exit_codes = [1]
    [types.inherits]
    python = "a:b"
    [types.overrides]
    python = "a:b"
    python_path = ["/own", "../up"]
    interpreter = "python3"
    max_jobs_per_child = 8
    env = { B = "own" }
    """
    config = load(text)
    assert python_of(config, "inherits") == PythonHandler(
        module="a",
        function="b",
        python_path=(f"{tmp_path}/lib",),
        interpreter=f"{tmp_path}/venv/bin/python",
        max_jobs_per_child=7,
        env={"A": "default", "B": "default"},
        cwd=f"{tmp_path}/work",
        user="nobody",
        kill_grace=1000,
        memory=1 << 30,
    )
    overrides = python_of(config, "overrides")
    assert overrides.python_path == ("/own", f"{tmp_path.parent}/up")
    assert overrides.interpreter == "python3"
    assert overrides.max_jobs_per_child == 8
    assert overrides.env == {"A": "default", "B": "own"}


def test_webhooks_inherit_the_defaults(load: Load, tmp_path: Path) -> None:
    text = """
    [defaults]
    http = { connect_timeout = "1s", ca_file = "ca.pem" }
    [types.inherits]
    http = { url = "https://example.com/" }
    [types.overrides]
    http = { url = "https://example.com/", connect_timeout = "2s", ca_file = "/ca.pem" }
    """
    config = load(text)
    assert http_of(config, "inherits").connect_timeout == 1000
    assert http_of(config, "inherits").ca_file == f"{tmp_path}/ca.pem"
    assert http_of(config, "overrides").connect_timeout == 2000
    assert http_of(config, "overrides").ca_file == "/ca.pem"


@pytest.mark.parametrize(
    ("text", "module", "function"),
    [
        ("jobs:score", "jobs", "score"),
        ("myapp.jobs:score", "myapp.jobs", "score"),
        ("a.b.c:Class.method", "a.b.c", "Class.method"),
        ("_private:_too", "_private", "_too"),
        ("größe:höhe", "größe", "höhe"),
    ],
)
def test_functions(load: Load, text: str, module: str, function: str) -> None:
    handler = python_of(load(f"[types.x]\npython = '{text}'"), "x")
    assert (handler.module, handler.function) == (module, function)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("myapp.jobs.score", "myapp.jobs:score"),
        ("myapp.jobs:score()", "myapp.jobs:score"),
        ("jobs.py:score", "jobs:score"),
        ("myapp/jobs.py:score", "myapp.jobs:score"),
        ("./jobs.py:score", "jobs:score"),
    ],
)
def test_what_was_meant(faults: Faults, text: str, meant: str) -> None:
    (found,) = faults(f"[types.x]\npython = '{text}'")
    assert found == (
        'types.x.python: must be a function as "module:function", such as "myapp.jobs:score",'
        f' not "{text}" (did you mean "{meant}"?)'
    )


@pytest.mark.parametrize(
    "text",
    ["", ":", "a:", ":b", "score", "a:b:c", "a..b:c", ".a:b", "a.:b", "a:b.", "a b:c", "a:class",
     "a.import:b", "1a:b", "a:lambda x", "/abs/jobs.py:score", "../jobs.py:score", "jobs.py"],
)  # fmt: skip
def test_what_is_no_function(faults: Faults, text: str) -> None:
    (found,) = faults(f"[types.x]\npython = '{text}'")
    assert found.startswith("types.x.python: must be a function as ")
    assert "did you mean" not in found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("python = 1", "types.x.python: must be a function as "),
        ("python = ['a:b']", "types.x.python: must be a function as "),
        ("python = 'a:b'\npython_path = 'lib'", "types.x.python_path: must be a list of dir"),
        ("python = 'a:b'\npython_path = ['lib', 1]", "types.x.python_path[1]: must be the path of"),
        ("python = 'a:b'\npython_path = ['~/lib']", '"~" is not expanded, write the whole path'),
        ("python = 'a:b'\ninterpreter = ''", "types.x.interpreter: must be the name or path of a"),
        ("python = 'a:b'\ninterpreter = '~/py'", '"~" is not expanded, write the whole path'),
        (
            "python = 'a:b'\ninterpreter = ['py']",
            "types.x.interpreter: must be the name or path of",
        ),
        ("python = 'a:b'\nmax_jobs_per_child = 0", "a whole number from 1 to 1000000000, not 0"),
        ("python = 'a:b'\nmax_jobs_per_child = 1000000001", "from 1 to 1000000000, not 1000000001"),
        ("remote = 'true'", 'remote: must be true or false, not "true": write it without quotes'),
        ("remote = 1", "types.x.remote: must be true or false, not 1"),
    ],
)
def test_one_fault(faults: Faults, line: str, message: str) -> None:
    (found,) = faults(f"[types.x]\n{line}")
    assert message in found


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_dot_in_the_name_of_a_type_is_seen_for_every_kind(faults: Faults, kind: str) -> None:
    (found,) = faults(f"[types.image]\nremote = true\n[types.image.resize]\n{CHOICES[kind]}")
    assert found.endswith('for a type named "image.resize" write [types."image.resize"]')


def test_the_defaults_are_those_of_the_model() -> None:
    declared = defaults_of("types.NAME")
    http, python = HttpHandler(url="x"), PythonHandler(module="a", function="b")
    assert declared["http.connect_timeout"] == http.connect_timeout
    assert declared["http.allow_private"] == http.allow_private
    assert declared["max_jobs_per_child"] == python.max_jobs_per_child
    assert declared["kill_grace"] == python.kill_grace
