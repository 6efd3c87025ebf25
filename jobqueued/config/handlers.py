"""The handler of a job type: which kind it is, what fits that kind, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobqueued.config.declare import settings_of
from jobqueued.config.read import Reader, Values
from jobqueued.config.setting import HANDLERS, TYPE
from jobqueued.model.job_type import (
    CommandHandler,
    Handler,
    HttpHandler,
    PythonHandler,
    RemoteHandler,
)

Table = dict[str, Any]

ESSENTIAL = {
    "command": ("command",),
    "http": ("http.url", "http.url_from"),
    "python": ("python",),
    "remote": ("remote",),
}
"""Of each kind of handler the settings of which it needs one."""


def check_handlers(reader: Reader) -> dict[str, str]:
    """The kind of handler of every type, by its name; what does not fit is noted as a fault."""
    kinds: dict[str, str] = {}
    for name, table in reader.tables("types").items():
        chosen = _chosen(table)
        if len(chosen) == 1:
            kinds[name] = chosen[0]
            _check_one(reader, name, chosen[0], table)
        else:
            reader.fault(("types", name), _choice_fault(chosen))
    return kinds


def can_build(kind: str | None, own: Values) -> bool:
    """Whether what is valid of a type's own settings says how its jobs are run."""
    return any(key in own for key in ESSENTIAL.get(kind or "", ()))


def build_handler(kind: str, values: Values, secrets: tuple[bytes, ...]) -> Handler:
    """The handler that the settings of a type describe."""
    if kind == "command":
        return _command(values)
    if kind == "http":
        return _http(values, secrets)
    return _python(values) if kind == "python" else RemoteHandler()


def _chosen(table: Table) -> list[str]:
    """The kinds of handler a type asks for; `remote = false` asks for nothing."""
    return [kind for kind in HANDLERS if kind in table and table[kind] is not False]


def _choice_fault(chosen: list[str]) -> str:
    choices = f"{', '.join(HANDLERS[:-1])} or {HANDLERS[-1]}"
    if not chosen:
        return f"does not say how its jobs are run: set {choices}"
    return f"has {' and '.join(chosen)}: a type has exactly one of {choices}"


def _check_one(reader: Reader, name: str, kind: str, table: Table) -> None:
    for key in table:
        meant_for = _meant_for(key)
        if key not in HANDLERS and kind not in meant_for:
            only = " and ".join(meant_for)
            reader.fault(("types", name, key), f"means nothing for {kind}: it is for {only} only")
    if isinstance(table.get("http"), dict):
        for inside, message in _webhook_faults(table["http"]):
            reader.fault(("types", name, "http", *inside), message)


def _meant_for(key: str) -> tuple[str, ...]:
    """The kinds of handler that a key of a type is for; what is unknown is a fault already."""
    settings = settings_of(TYPE).values()
    return next((each.handlers for each in settings if each.first_key == key), HANDLERS)


def _webhook_faults(http: Table) -> Iterator[tuple[tuple[str, ...], str]]:
    if "url" in http and "url_from" in http:
        yield (), "has url and url_from: keep one of them"
    elif "url" in http:
        for key in ("allowed_hosts", "allow_private"):
            if key in http:
                yield (key,), "means nothing for url: it is for url_from only"
    elif "url_from" not in http:
        yield (), "does not say where to post: set url, or url_from with allowed_hosts"
    elif "allowed_hosts" not in http:
        sample = 'allowed_hosts = ["*.example.com"]'
        yield ("url_from",), f"needs the hosts that payloads may name, such as {sample}"
    if "secret_file" in http and "secret_credential" in http:
        yield (), "has secret_file and secret_credential: keep one of them"


def _command(values: Values) -> CommandHandler:
    return CommandHandler(
        argv=values["command"],
        fatal_exit_codes=values["fatal_exit_codes"],
        result_from_stdout=values.get("result") == "stdout",
        **_process(values),
    )


def _http(values: Values, secrets: tuple[bytes, ...]) -> HttpHandler:
    ca_file = values.get("http.ca_file")
    return HttpHandler(
        url=values.get("http.url"),
        url_from=values.get("http.url_from", ()),
        allowed_hosts=values.get("http.allowed_hosts", ()),
        allow_private=values["http.allow_private"],
        secrets=secrets,
        headers=values.get("http.headers", {}),
        connect_timeout=values["http.connect_timeout"],
        ca_file=None if ca_file is None else str(ca_file),
    )


def _python(values: Values) -> PythonHandler:
    module, function = values["python"]
    return PythonHandler(
        module=module,
        function=function,
        interpreter=values.get("interpreter"),
        python_path=values.get("python_path", ()),
        max_jobs_per_child=values["max_jobs_per_child"],
        **_process(values),
    )


def _process(values: Values) -> dict[str, Any]:
    """What commands and Python functions have in common."""
    return {
        "env": values.get("env", {}),
        "cwd": str(values["cwd"]) if "cwd" in values else None,
        "user": values.get("user"),
        "kill_grace": values["kill_grace"],
        "memory": values.get("memory"),
    }
