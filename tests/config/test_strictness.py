"""Every fault is found, at its place, with a word on what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Faults = Callable[[str], list[str]]

OK = 'command = ["true"]'


def in_type(line: str) -> str:
    return f"[types.x]\n{OK}\n{line}"


UNKNOWN = [
    ("foo = 1", "foo: unknown key: the sections are server, store, queue"),
    ("[sever]", 'sever: unknown key (did you mean "server"?)'),
    ("[type.x]", 'type: unknown key (did you mean "types"?)'),
    ("workers = 4", 'workers: unknown key (did you mean "pools.NAME.workers"?)'),
    ("[server]\nmax_bdy = 1", 'server.max_bdy: unknown key (did you mean "max_body"?)'),
    ("[server]\nmax-body = 1", 'server.max-body: unknown key (did you mean "max_body"?)'),
    ("[queue]\nmax_body = 1", 'queue.max_body: unknown key (did you mean "server.max_body"?)'),
    ("[queue]\nzzz = 1", "queue.zzz: unknown key: known here are max_depth, max_payload"),
    ("[pools.a]\nworker = 1", 'pools.a.worker: unknown key (did you mean "workers"?)'),
    ("[defaults]\nretries = 1", 'defaults.retries: unknown key (did you mean "max_retries"?)'),
    ("[defaults]\nresult = 1", 'defaults.result: unknown key (did you mean "types.NAME.result"?)'),
    (in_type("base = 1"), 'types.x.base: unknown key (did you mean "backoff.base"?)'),
    (in_type("zzz = 1"), "types.x.zzz: unknown key: known here are command, http, python, remote"),
    (in_type("url = 'x'"), 'types.x.url: unknown key (did you mean "http.url"?)'),
    (
        "[defaults]\nremote = true",
        'defaults.remote: unknown key (did you mean "types.NAME.remote"?)',
    ),
    ("[defaults.http]\nurl = 'x'", 'defaults.http.url: unknown key (did you mean "types.NAME.http'),
    (in_type("backoff.bse = 1"), 'types.x.backoff.bse: unknown key (did you mean "base"?)'),
    (in_type('"backoff.base" = "1s"'), 'types.x."backoff.base": unknown key'),
    (in_type('"a\\nb" = 1'), 'types.x."a\\nb": unknown key'),
    (
        f"[types.image]\n{OK}\n[types.image.resize]\n{OK}",
        'types.image.resize: unknown key: for a type named "image.resize" write'
        ' [types."image.resize"]',
    ),
]

SHAPES = [
    ("server = 1", "server: must be a table with listen, max_body, not 1"),
    ("[[queue]]", "queue: must be a table with max_depth"),
    ("types = []", "types: must be tables such as [types.example], not a list"),
    ("pools = 3", "pools: must be tables such as [pools.example], not 3"),
    ("[pools]\ndefault = 3", "pools.default: must be a table with workers, max_share, not 3"),
    ("[types]\nx = 'true'", "types.x: must be a table with command"),
    (in_type("backoff = '30s'"), "types.x.backoff: must be a table with base, factor, max, jitter"),
]

NAMES = [
    (f"[types.Resize]\n{OK}", "types.Resize: a name is made of letters a-z", "resize"),
    (f'[types."send mail"]\n{OK}', 'types."send mail": a name is made of letters a-z', "send_mail"),
    (f"[types._x]\n{OK}", "types._x: a name is made of letters a-z", "x"),
    (f"[types.{'x' * 129}]\n{OK}", f"types.{'x' * 129}: a name is made of", "x" * 128),
    (f'[types."x\\n"]\n{OK}', 'types."x\\n": a name is made of', "x"),
    ("[pools.Heavy]", "pools.Heavy: a name is made of", "heavy"),
]

WHOLE_NUMBERS = [
    (
        "[queue]\nmax_depth = 0",
        "queue.max_depth: must be a whole number from 1 to 100000000, not 0",
    ),
    ("[queue]\nmax_depth = '5'", 'from 1 to 100000000, not "5": write it without quotes'),
    ("[queue]\nmax_depth = 'many'", 'from 1 to 100000000, not "many"'),
    ("[queue]\nmax_depth = 1.5", "from 1 to 100000000, not 1.5"),
    ("[queue]\nmax_depth = true", "from 1 to 100000000, not true"),
    (f"[queue]\nmax_depth = 0x{'f' * 9000}", "not a number of more than 64 bits"),
    ("[queue]\nmax_batch = 10001", "queue.max_batch: must be a whole number from 1 to 10000"),
    ("[pools.a]\nworkers = 0", "pools.a.workers: must be a whole number from 1 to 1000, not 0"),
    ("[pools.a]\nworkers = 1001", "pools.a.workers: must be a whole number from 1 to 1000"),
    (in_type("priority = 10"), "types.x.priority: must be a whole number from 0 to 9, not 10"),
    (in_type("priority = -1"), "types.x.priority: must be a whole number from 0 to 9, not -1"),
    (in_type("max_retries = 21"), "types.x.max_retries: must be a whole number from 0 to 20"),
    (in_type("max_running = 0"), "types.x.max_running: must be a whole number from 1 to 1000"),
    (in_type("priority = 2026-01-31"), "from 0 to 9, not 2026-01-31"),
]

NUMBERS = [
    ("[pools.a]\nmax_share = 0", "pools.a.max_share: must be a number from 0.01 to 1.0, not 0"),
    ("[pools.a]\nmax_share = 1.1", "pools.a.max_share: must be a number from 0.01 to 1.0, not 1.1"),
    ("[pools.a]\nmax_share = nan", "from 0.01 to 1.0, not nan"),
    ("[pools.a]\nmax_share = '0.5'", 'from 0.01 to 1.0, not "0.5": write it without quotes'),
    ("[pools.a]\nmax_share = true", "from 0.01 to 1.0, not true"),
    (in_type("backoff.factor = inf"), "types.x.backoff.factor: must be a number from 1.0 to 10.0"),
    (in_type("backoff.factor = 0.5"), "types.x.backoff.factor: must be a number from 1.0 to 10.0"),
]

QUANTITIES = [
    (in_type("timeout = 30"), 'not 30: write it in quotes and with its unit, such as "30s"'),
    (in_type("timeout = -3"), 'not -3: write it in quotes and with its unit, such as "30s"'),
    (in_type("timeout = 1.5"), 'not 1.5: write it in quotes and with its unit, such as "30s"'),
    (in_type("timeout = '30'"), 'types.x.timeout: "30" is not a duration: write one number and'),
    (in_type("timeout = '5 min'"), '(did you mean "5m"?)'),
    (in_type("timeout = '31d'"), 'types.x.timeout: must be a duration from 10ms to 30d, not "31d"'),
    (in_type("timeout = '9ms'"), "types.x.timeout: must be a duration from 10ms to 30d"),
    (in_type("lease = '4s'"), 'types.x.lease: must be a duration from 5s to 1h, not "4s"'),
    (in_type("lease = '61m'"), 'types.x.lease: must be a duration from 5s to 1h, not "61m"'),
    ("[defaults]\nlease = '1s'", "defaults.lease: must be a duration from 5s to 1h"),
    ("[shutdown]\nkill_timeout = '2h'", "shutdown.kill_timeout: must be a duration from 0s to 1h"),
    ("[server]\nmax_body = 8", "server.max_body: must be a size from 1KiB to 256MiB, not 8: write"),
    ("[queue]\nmax_payload = '9MiB'", "queue.max_payload: must be a size from 1KiB to 8MiB"),
    ("[queue]\nmax_payload = '1B'", "queue.max_payload: must be a size from 1KiB to 8MiB"),
    ("[queue]\nmax_payload = '64KB'", '(did you mean "64KiB"?)'),
    (in_type("memory = '1KiB'"), "types.x.memory: must be a size from 1MiB to 16TiB"),
]

RATES = [
    (in_type("rate = 100"), 'not 100: write it in quotes and with its unit, such as "100/min"'),
    (in_type("rate = '100/m'"), 'types.x.rate: "100/m" is not a rate: write a whole number'),
    (in_type("rate = '100/m'"), '(did you mean "100/min"?)'),
    (in_type("rate = '100 per Second'"), '(did you mean "100/s"?)'),
    (in_type("rate = '0/s'"), 'types.x.rate: "0/s" is not a rate'),
    (in_type("rate = '1.5/s'"), 'types.x.rate: "1.5/s" is not a rate'),
    (in_type("rate = '10001/s'"), 'must be a rate from 1/d to 10000/s, not "10001/s"'),
    ("[defaults]\nrate = '1/s'", 'defaults.rate: unknown key (did you mean "types.NAME.rate"?)'),
]

BREAKERS = [
    (in_type("breaker = 'off'"), 'types.x.breaker: must be true or false, not "off"'),
    (in_type("breaker = { rate = 0.5 }"), "types.x.breaker.rate: unknown key"),
    (in_type("breaker = { error_rate = 0 }"), "breaker.error_rate: must be a number from 0.01"),
    (in_type("breaker = { window = '2d' }"), "breaker.window: must be a duration from 1s to 24h"),
    ("[defaults]\nbreaker = { min_attempts = 0 }", "breaker.min_attempts: must be a whole number"),
    (in_type("breaker = { probe_every = '1ms' }"), "must be a duration from 100ms to 24h"),
]

WORDS = [
    ("[store]\ndurability = 'ful'", 'must be "full" or "normal", not "ful" (did you mean "full"?)'),
    ("[store]\ndurability = 1", 'store.durability: must be "full" or "normal", not 1'),
    ("[store]\npath = ''", "store.path: must be the path of the database file"),
    ("[store]\npath = '~/jobs.db'", '"~" is not expanded'),
    ('[store]\npath = "a\\u0000b"', "store.path: must be the path of the database file"),
    (in_type("result = 'stderr'"), 'types.x.result: must be "stdout", not "stderr"'),
    (in_type("result = true"), 'types.x.result: must be "stdout", not true'),
    (in_type("user = ''"), "types.x.user: must be the name of a user"),
    (in_type("user = 0"), "types.x.user: must be the name of a user, not 0"),
    (in_type("cwd = []"), "types.x.cwd: must be the path of a directory, not a list"),
    (in_type("pool = 3"), "types.x.pool: must be the name of a pool, not 3"),
]

LISTS = [
    ("[server]\nlisten = '127.0.0.1:1'", "server.listen: must be a list of addresses such as ["),
    ("[server]\nlisten = []", "server.listen: is empty: it must be a list of addresses"),
    ("[server]\nlisten = [5627]", "server.listen[0]: must be an address in quotes, not 5627"),
    ("[server]\nlisten = ['0.0.0.0:80']", 'server.listen[0]: "0.0.0.0:80" is not a loopback'),
    ("[server]\nlisten = ['unix:/" + "x" * 120 + "']", "is too long for a unix socket: 121 bytes"),
    (
        "[server]\nlisten = ['unix:/a/b', 'unix:/a/../a/b']",
        'server.listen[1]: "unix:/a/../a/b" is listed twice',
    ),
    (
        "[types.x]\ncommand = []",
        "types.x.command: is empty: it must be a program and its arguments",
    ),
    ("[types.x]\ncommand = ['']", 'types.x.command[0]: must name a program, not ""'),
    ("[types.x]\ncommand = [' ']", 'types.x.command[0]: must name a program, not " "'),
    ("[types.x]\ncommand = 'ls -l'", 'not "ls -l": no shell is involved; where you want one write'),
    ("[types.x]\ncommand = ['ls', 1]", "types.x.command[1]: must be text in quotes, not 1"),
    ('[types.x]\ncommand = ["a\\u0000"]', "types.x.command[0]: must not contain a NUL"),
    ("[types.x]\ncommand = ['~/run']", 'types.x.command[0]: "~/run": "~" is not expanded'),
    (f"[types.x]\ncommand = ['a', '{'x' * 131072}']", "types.x.command[1]: is longer than the"),
    (
        "[types.x]\ncommand = [" + "'a'," * 1001 + "]",
        "types.x.command: has 1001 entries: at most 1000",
    ),
    (
        "[types.x]\npriority = 1",
        "types.x: does not say how its jobs are run: set command, http, python or remote",
    ),
    (in_type("fatal_exit_codes = 64"), "types.x.fatal_exit_codes: must be a list of exit codes"),
    (in_type("fatal_exit_codes = [0]"), "types.x.fatal_exit_codes[0]: must be a whole number from"),
    (in_type("fatal_exit_codes = [1, 256]"), "types.x.fatal_exit_codes[1]: must be a whole number"),
    (in_type("env = 'A=b'"), 'types.x.env: must be a table of texts such as { LANG = "C.UTF-8" }'),
    (in_type("env.A = 1"), "types.x.env.A: must be text in quotes, not 1"),
    (in_type("env.JOB_ID = 'x'"), "types.x.env.JOB_ID: is set by jobqueued for every command"),
    (in_type("env.'A=B' = 'x'"), 'types.x.env."A=B": is not the name of a variable'),
    (in_type("env.'' = 'x'"), 'types.x.env."": is not the name of a variable'),
    (in_type('env.A = "\\u0000"'), "types.x.env.A: must not contain a NUL character"),
    (in_type(f"env.A = '{'x' * 131070}'"), "types.x.env.A: is longer than the 131071 bytes"),
]

POOLS = [
    ("[pools.heavy]\n" + in_type("pool = 'heavey'"), 'no pool "heavey" (did you mean "heavy"?)'),
    (in_type("pool = 'zzz'"), 'types.x.pool: there is no pool "zzz": configured are "default"'),
    (
        "[defaults]\npool = 'defalt'",
        'defaults.pool: there is no pool "defalt" (did you mean "defau',
    ),
]


@pytest.mark.parametrize(
    ("text", "message"),
    UNKNOWN
    + SHAPES
    + WHOLE_NUMBERS
    + NUMBERS
    + QUANTITIES
    + RATES
    + BREAKERS
    + WORDS
    + LISTS
    + POOLS,
)
def test_one_fault(faults: Faults, text: str, message: str) -> None:
    (found,) = faults(text)
    assert message in found


@pytest.mark.parametrize(("text", "message", "meant"), NAMES)
def test_names(faults: Faults, text: str, message: str, meant: str) -> None:
    (found,) = faults(text)
    assert found.startswith(message)
    assert found.endswith(f'(did you mean "{meant}"?)')


def test_a_name_of_which_nothing_can_be_kept(faults: Faults) -> None:
    (found,) = faults(f'[types."ü"]\n{OK}')
    assert found.startswith('types."ü": a name is made of')
    assert "did you mean" not in found


MANY = """
oops = 1
[server]
listen = ["0.0.0.0:80", "127.0.0.1:1", 5]
[queue]
max_depth = 0
max_payload = "64KB"
[pools.heavy]
workers = 0
[defaults]
pool = "nowhere"
[types.a]
pool = "nowhere"
[types.b]
command = "ls"
backoff = { base = 1, factor = 0 }
env = { A = 1, JOB_ID = "" }
"""


def test_all_faults_at_once(faults: Faults) -> None:
    assert {line.split(": ")[0] for line in faults(MANY)} == {
        "oops",
        "server.listen[0]",
        "server.listen[2]",
        "queue.max_depth",
        "queue.max_payload",
        "pools.heavy.workers",
        "defaults.pool",
        "types.a.pool",
        "types.a",
        "types.b.command",
        "types.b.backoff.base",
        "types.b.backoff.factor",
        "types.b.env.A",
        "types.b.env.JOB_ID",
    }


def test_long_values_are_shortened(faults: Faults) -> None:
    (found,) = faults("[store]\ndurability = '" + "x" * 100_000 + "'")
    assert len(found) < 200


def test_a_pool_with_a_fault_still_exists(faults: Faults) -> None:
    assert len(faults("[pools.heavy]\nworkers = 0\n" + in_type("pool = 'heavy'"))) == 1
