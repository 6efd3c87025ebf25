"""From files to a checked `Config`, or to every fault at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jobqueued.config.declare import SETTINGS, defaults_of
from jobqueued.config.faults import Faults, did_you_mean, quoted, shown_path
from jobqueued.config.files import Tree, read_files
from jobqueued.config.handlers import build_handler, can_build, check_handlers
from jobqueued.config.listen import UnixAddress, check_socket_path
from jobqueued.config.places import default_socket_path, default_store_path
from jobqueued.config.read import Reader, Values
from jobqueued.config.schema_files import read_schemas
from jobqueued.config.secret_files import read_secrets
from jobqueued.config.setting import DEFAULTS, POOL, TYPE
from jobqueued.config.settings import (
    Config,
    PoolSettings,
    QueueSettings,
    RetentionSettings,
    ServerSettings,
    ShutdownSettings,
    StoreSettings,
)
from jobqueued.model.control import Breaker
from jobqueued.model.errors import ConfigError
from jobqueued.model.job_type import Handler, JobType
from jobqueued.model.retry import Backoff

DEFAULT_PORT = 5627
DEFAULT_POOL = "default"

FIXED_SECTIONS = ("server", "store", "queue", "shutdown", "retention")


def load_config(
    path: Path, environment: Mapping[str, str] = os.environ, *, with_secrets: bool = True
) -> Config:
    """Load and check; the ConfigError lists every fault, one a line.

    Without secrets it also works for who may not read them, such as a user who only wants to know
    where the daemon listens.
    """
    faults = Faults()
    tree = read_files(path, faults)
    return build_config(tree, faults, environment, with_secrets=with_secrets)


def build_config(
    tree: Tree, faults: Faults, environment: Mapping[str, str], *, with_secrets: bool = True
) -> Config:
    """Check the merged files and fill in every default."""
    config = valid_part(tree, faults, environment, unreadable=faults if with_secrets else None)
    faults.raise_any()
    assert config is not None, "whatever is missing is a fault"
    return config


def valid_part(
    tree: Tree, faults: Faults, environment: Mapping[str, str], *, unreadable: Faults | None
) -> Config | None:
    """What is left when everything faulty is left out, or None where that is too little.

    Secrets and schemas that this user may not read are noted in `unreadable`; without it none
    are read.
    """
    reader = Reader(tree, faults, Path(os.path.abspath(tree.main.parent)))
    reader.check_top()
    fixed = {name: defaults_of(name) | reader.section(name) for name in FIXED_SECTIONS}
    pools: dict[str, Values] = {DEFAULT_POOL: {}} | reader.named_sections("pools")
    defaults = reader.section(DEFAULTS)
    types = reader.named_sections("types")
    kinds: dict[str, str] = {}
    # What looks missing may be in a file that could not be read.
    if tree.complete:
        kinds = check_handlers(reader)
        _check_pools(reader, list(pools), defaults, types)
    secrets = {} if unreadable is None else read_secrets(reader, types, environment, unreadable)
    schemas = {} if unreadable is None else read_schemas(reader, types, unreadable)
    placed = _fill_places(reader, fixed, environment)
    runnable = all(can_build(kinds.get(name), own) for name, own in types.items())
    if not (placed and tree.complete and runnable):
        return None
    return Config(
        server=ServerSettings(**fixed["server"]),
        store=StoreSettings(**fixed["store"]),
        queue=QueueSettings(**fixed["queue"]),
        shutdown=ShutdownSettings(**fixed["shutdown"]),
        retention=RetentionSettings(**fixed["retention"]),
        pools={name: PoolSettings(**(defaults_of(POOL) | set_)) for name, set_ in pools.items()},
        types={
            name: _job_type(
                name,
                build_handler(kinds[name], _complete(defaults, own), secrets.get(name, ())),
                _complete(defaults, own),
                schemas.get(name),
            )
            for name, own in types.items()
        },
        files=tuple(file.absolute() for file in tree.files),
    )


def needs_restart(old: Config, new: Config) -> list[str]:
    """Dotted keys that changed and only take effect after a restart."""
    keys = [setting.keys[0] for setting in SETTINGS if setting.needs_restart]
    return [key for key in keys if _lookup(old, key) != _lookup(new, key)]


def _lookup(config: Config, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def _check_pools(
    reader: Reader, pools: list[str], defaults: Values, types: dict[str, Values]
) -> None:
    users = {(DEFAULTS, "pool"): defaults} | {
        ("types", name, "pool"): types[name] for name in types
    }
    for keys, values in users.items():
        pool = values.get("pool", DEFAULT_POOL)
        if pool not in pools:
            hint = did_you_mean(pool, pools) or f": configured are {', '.join(map(quoted, pools))}"
            reader.fault(keys, f"there is no pool {quoted(pool)}{hint}")


def _fill_places(reader: Reader, fixed: dict[str, Values], environment: Mapping[str, str]) -> bool:
    """Settle where the database and the socket are when the files do not say; whether it went."""
    store, server = fixed["store"], fixed["server"]
    if "path" not in store:
        try:
            store["path"] = default_store_path(environment)
        except ConfigError as error:
            reader.fault(("store", "path"), str(error))
            return False
    if "listen" not in server:
        socket = default_socket_path(store["path"], environment)
        try:
            check_socket_path(socket)
        except ValueError as error:
            reader.fault(("server", "listen"), f"the default, {shown_path(socket)}, {error}")
        server["listen"] = (f"127.0.0.1:{DEFAULT_PORT}", str(UnixAddress(socket)))
    return True


def _complete(defaults: Values, own: Values) -> Values:
    """The settings of a type, with those of `[defaults]` and ours where it sets none."""
    joined: Values = {"env": defaults.get("env", {}) | own.get("env", {})}
    if any(name.startswith("breaker.") for name in own):
        # To say how the breaker of a type works is to want one.
        joined["breaker"] = True
    return defaults_of(TYPE) | defaults | own | joined


def _job_type(name: str, handler: Handler, values: Values, schema: str | None) -> JobType:
    return JobType(
        name=name,
        handler=handler,
        pool=values["pool"],
        timeout=values["timeout"],
        max_retries=values["max_retries"],
        priority=values["priority"],
        backoff=_backoff(values),
        lease=values["lease"],
        max_running=values.get("max_running"),
        max_running_per_key=values.get("max_running_per_key"),
        rate=values.get("rate"),
        breaker=_breaker(values),
        confirm_replay=values["confirm_replay"],
        payload_schema=schema,
    )


def _breaker(values: Values) -> Breaker | None:
    if not values.get("breaker", True):
        return None
    return Breaker(
        error_rate=values["breaker.error_rate"],
        window=values["breaker.window"],
        min_attempts=values["breaker.min_attempts"],
        probe_every=values["breaker.probe_every"],
    )


def _backoff(values: Values) -> Backoff:
    return Backoff(
        base=values["backoff.base"],
        factor=values["backoff.factor"],
        max=values["backoff.max"],
        jitter=values["backoff.jitter"],
    )
