from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from jobqueued.config import (
    SETTINGS,
    Config,
    PoolSettings,
    QueueSettings,
    RetentionSettings,
    ServerSettings,
    ShutdownSettings,
    StoreSettings,
    load_config,
    needs_restart,
)
from jobqueued.config.declare import defaults_of
from jobqueued.model.control import Breaker
from jobqueued.model.errors import ConfigError
from jobqueued.model.job_type import CommandHandler, JobType
from jobqueued.model.rate import Rate
from jobqueued.model.retry import Backoff
from tests.config.support import command_of

Load = Callable[[str], Config]

DAY = 86_400_000


def test_an_empty_file_is_all_defaults(load: Load, tmp_path: Path) -> None:
    assert load("") == Config(
        server=ServerSettings(
            listen=("127.0.0.1:5627", "unix:/runtime/jobqueued.sock"), max_body=8 << 20
        ),
        store=StoreSettings(path=Path("/state/jobs.db"), durability="full"),
        queue=QueueSettings(
            max_depth=100_000, max_payload=64 << 10, max_batch=100, idempotency_window=DAY
        ),
        shutdown=ShutdownSettings(drain_timeout=30_000, kill_timeout=10_000),
        retention=RetentionSettings(completed=7 * DAY, dead=30 * DAY, cancelled=7 * DAY),
        pools={"default": PoolSettings(workers=10, max_share=0.8)},
        types={},
        files=(tmp_path / "jobqueued.toml",),
    )


def test_a_type_with_only_a_command_is_all_defaults(load: Load) -> None:
    handler = CommandHandler(argv=("true",))
    assert load('[types.x]\ncommand = ["true"]').types == {"x": JobType(name="x", handler=handler)}


def test_everything_set(load: Load, tmp_path: Path) -> None:
    config = load(
        """
        [server]
        listen = ["[::1]:1", "localhost:2", "unix:q.sock"]
        max_body = "1MiB"
        [store]
        path = "data/jobs.db"
        durability = "normal"
        [queue]
        max_depth = 7
        max_payload = "2KiB"
        max_batch = 3
        idempotency_window = "1.5h"
        [shutdown]
        drain_timeout = "1s"
        kill_timeout = "250ms"
        [retention]
        completed = "1d"
        dead = "2d"
        cancelled = "3d"
        [pools.heavy]
        workers = 2
        max_share = 1
        [types.resize_image]
        command = ["bin/resize", "--fast", ""]
        pool = "heavy"
        timeout = "2m"
        max_retries = 0
        priority = 9
        backoff = { base = "1s", factor = 1, max = "2s", jitter = "0s" }
        lease = "5s"
        max_running = 2
        rate = "90/min"
        breaker = { error_rate = 0.5, window = "1m", min_attempts = 3, probe_every = "2s" }
        memory = "512MiB"
        env = { LANG = "C" }
        cwd = "work"
        user = "nobody"
        kill_grace = "1s"
        fatal_exit_codes = [2, 3]
        result = "stdout"
        """
    )
    assert config.server == ServerSettings(
        listen=("[::1]:1", "localhost:2", f"unix:{tmp_path}/q.sock"), max_body=1 << 20
    )
    assert config.store == StoreSettings(path=tmp_path / "data/jobs.db", durability="normal")
    assert config.queue == QueueSettings(
        max_depth=7, max_payload=2048, max_batch=3, idempotency_window=5_400_000
    )
    assert config.shutdown == ShutdownSettings(drain_timeout=1000, kill_timeout=250)
    assert config.retention == RetentionSettings(completed=DAY, dead=2 * DAY, cancelled=3 * DAY)
    assert config.pools == {
        "default": PoolSettings(workers=10, max_share=0.8),
        "heavy": PoolSettings(workers=2, max_share=1.0),
    }
    assert config.types == {
        "resize_image": JobType(
            name="resize_image",
            handler=CommandHandler(
                argv=(f"{tmp_path}/bin/resize", "--fast", ""),
                env={"LANG": "C"},
                cwd=f"{tmp_path}/work",
                user="nobody",
                kill_grace=1000,
                fatal_exit_codes=frozenset({2, 3}),
                result_from_stdout=True,
                memory=512 << 20,
            ),
            pool="heavy",
            timeout=120_000,
            max_retries=0,
            priority=9,
            backoff=Backoff(base=1000, factor=1.0, max=2000, jitter=0),
            lease=5000,
            max_running=2,
            rate=Rate(90, 60_000),
            breaker=Breaker(error_rate=0.5, window=60_000, min_attempts=3, probe_every=2_000),
        )
    }


DEFAULTS = """
[pools.heavy]
[defaults]
pool = "heavy"
timeout = "1m"
max_retries = 1
priority = 2
backoff = { base = "1s", factor = 3 }
lease = "10s"
kill_grace = "2s"
fatal_exit_codes = []
memory = "1GiB"
env = { A = "default", B = "default" }
cwd = "/srv"
user = "nobody"
[types.inherits]
command = ["true"]
[types.overrides]
command = ["true"]
pool = "default"
timeout = "2m"
backoff = { factor = 4.0, jitter = "0s" }
env = { B = "own", C = "own" }
cwd = "/tmp"
fatal_exit_codes = [1]
"""


def test_types_inherit_the_defaults(load: Load) -> None:
    job_type = load(DEFAULTS).types["inherits"]
    assert job_type == JobType(
        name="inherits",
        handler=CommandHandler(
            argv=("true",),
            env={"A": "default", "B": "default"},
            cwd="/srv",
            user="nobody",
            kill_grace=2000,
            fatal_exit_codes=frozenset(),
            memory=1 << 30,
        ),
        pool="heavy",
        timeout=60_000,
        max_retries=1,
        priority=2,
        backoff=Backoff(base=1000, factor=3.0),
        lease=10_000,
    )


def test_types_override_what_they_set(load: Load) -> None:
    config = load(DEFAULTS)
    job_type, handler = config.types["overrides"], command_of(config, "overrides")
    assert job_type.pool == "default"
    assert job_type.timeout == 120_000
    assert job_type.max_retries == 1
    assert job_type.backoff == Backoff(base=1000, factor=4.0, max=3_600_000, jitter=0)
    assert handler.env == {"A": "default", "B": "own", "C": "own"}
    assert handler.cwd == "/tmp"
    assert handler.fatal_exit_codes == {1}


@pytest.mark.parametrize(
    ("command", "program"),
    [("true", "true"), ("./run", "{here}/run"), ("../run", "{above}/run"), ("/bin/sh", "/bin/sh")],
)
def test_where_a_command_is(load: Load, tmp_path: Path, command: str, program: str) -> None:
    argv = command_of(load(f'[types.x]\ncommand = ["{command}"]'), "x").argv
    assert argv == (program.format(here=tmp_path, above=tmp_path.parent),)


def test_relative_paths_do_not_follow_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobqueued.toml").write_text('[store]\npath = "jobs.db"')
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("jobqueued.toml"), {})
    assert config.store.path == tmp_path / "jobs.db"
    assert config.files == (tmp_path / "jobqueued.toml",)


def test_without_a_runtime_directory_the_socket_is_beside_the_database(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[store]\npath = "/data/jobs.db"')
    listen = load_config(tmp_path / "c.toml", {}).server.listen
    assert listen == ("127.0.0.1:5627", "unix:/data/jobqueued.sock")


def test_a_default_socket_that_is_too_long_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    with pytest.raises(ConfigError, match=r"c\.toml: server\.listen: the default, /x+.* too"):
        load_config(tmp_path / "c.toml", {"STATE_DIRECTORY": "/" + "x" * 100})


def test_no_home_is_a_fault_of_the_path(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    with pytest.raises(ConfigError, match=r"c\.toml: store\.path: no home directory is known"):
        load_config(tmp_path / "c.toml", {"HOME": "nowhere"})


def test_a_home_is_not_needed_when_the_path_is_set(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[store]\npath = "jobs.db"')
    assert load_config(tmp_path / "c.toml", {"HOME": "nowhere"}).store.path == tmp_path / "jobs.db"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", []),
        ("[queue]\nmax_depth = 1\n[pools.default]\nworkers = 1", []),
        ('[types.x]\ncommand = ["true"]', []),
        ('[store]\npath = "other.db"', ["store.path"]),
        ('[server]\nlisten = ["127.0.0.1:1"]', ["server.listen"]),
        (
            '[store]\npath = "b"\ndurability = "normal"\n[server]\nlisten = ["localhost:1"]',
            ["server.listen", "store.path", "store.durability"],
        ),
    ],
)
def test_what_needs_a_restart(load: Load, text: str, keys: list[str]) -> None:
    assert needs_restart(load(""), load(text)) == keys


def test_every_setting_says_what_it_is() -> None:
    for setting in SETTINGS:
        assert setting.help.endswith("."), setting.keys
        assert "\n" not in setting.help, setting.keys
        assert setting.kind.accepts, setting.keys
        assert (setting.default is None) != (not setting.otherwise), setting.keys


def test_every_key_is_declared_once() -> None:
    keys = [key for setting in SETTINGS for key in setting.keys]
    assert len(keys) == len(set(keys))


def test_the_defaults_of_a_type_are_those_of_the_model() -> None:
    model = msgspec.structs.asdict(JobType(name="x", handler=CommandHandler(argv=("true",))))
    declared = defaults_of("types.NAME")
    shared = set(model) & set(declared)
    assert shared == {
        *("pool", "timeout", "max_retries", "priority", "lease", "confirm_replay"),
    }
    assert {name: model[name] for name in shared} == {name: declared[name] for name in shared}


BREAKER = "breaker = { min_attempts = 3 }"


@pytest.mark.parametrize(
    ("defaults", "own", "expected"),
    [
        ("", "", Breaker()),
        ("", BREAKER, Breaker(min_attempts=3)),
        ("breaker = { window = '1m' }", BREAKER, Breaker(window=60_000, min_attempts=3)),
        ("", "breaker = false", None),
        ("breaker = false", "", None),
        ("breaker = false", "breaker = true", Breaker()),
        ("breaker = false", BREAKER, Breaker(min_attempts=3)),
        (BREAKER, "breaker = false", None),
    ],
)
def test_a_type_says_whether_it_has_a_breaker(
    load: Load, defaults: str, own: str, expected: Breaker | None
) -> None:
    config = load(f"[defaults]\n{defaults}\n[types.x]\nremote = true\n{own}\n")
    assert config.types["x"].breaker == expected
