"""What the hot queries cost with 50,000 jobs in the file: an index each, no scan, no sort."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from jobqueued.model.change import Act, Found, Replay
from jobqueued.model.control import Control, Room
from jobqueued.model.ids import first_place
from jobqueued.model.job import CANCELLABLE, Status
from jobqueued.model.rate import Rate
from jobqueued.model.submission import JobQuery
from jobqueued.store.interface import Ask, Retained
from jobqueued.store.sqlite import cancel, claims, dead, due, jobs, leases, retention
from jobqueued.store.sqlite.claims import Wish
from jobqueued.store.sqlite.connection import open_writer
from jobqueued.store.sqlite.counts import JobCounts, Transaction
from jobqueued.store.sqlite.migrate import migrate, shipped_migrations
from jobqueued.store.sqlite.queries import SQL
from jobqueued.store.sqlite.standing import read_standing
from tests.store.support import NOW, asking, new_job

ROWS = 50_000
SOME = 5
"""Jobs of each rare kind."""

Work = Callable[[sqlite3.Connection], object]

SEED = """
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :rows),
kinds (n, status) AS (
    SELECT n, CASE WHEN n < :some THEN 'processing' WHEN n < 2 * :some THEN 'dead'
                   WHEN n % 10 < 6 THEN 'completed' WHEN n % 10 < 8 THEN 'pending'
                   WHEN n % 10 < 9 THEN 'scheduled' ELSE 'retrying' END
    FROM numbers)
INSERT INTO jobs (seq, id, type, status, priority, max_retries, attempt, failures, created_at,
                  run_at, started_at, finished_at, expires_at, idempotency_key, correlation_id,
                  key, batch_id, held_by, lease_token, lease_expires_at, held_back)
SELECT :first + n, 'id-' || n,
       CASE WHEN n < :some THEN 'rare' WHEN n % 2 THEN 'mail' ELSE 'image' END,
       status, n / 10 % 10, 3, 1, 1, :now, :now + n, :now,
       iif(status IN ('completed', 'dead'), :now + n, NULL), iif(n % 3, :now + n, NULL),
       iif(n % 4, NULL, 'once-' || n), 'trace-' || n / 5, 'key-' || n / 5, 'batch-' || n / 5,
       iif(status = 'processing', 'daemon', NULL), iif(status = 'processing', 't', NULL),
       iif(status = 'processing', :now + n, NULL), status = 'pending' AND n % 7 = 0
FROM kinds
"""


class Recording(sqlite3.Connection):
    """A connection that remembers what it was asked."""

    ran: list[tuple[str, Any]]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.ran.append((sql, parameters))
        return super().execute(sql, parameters)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("plans") / "jobs.db"
    with closing(open_writer(path, "normal")) as writer:
        migrate(writer, path, shipped_migrations())
        values = {"rows": ROWS, "some": SOME, "now": NOW, "first": first_place(NOW)}
        writer.execute(SEED, values)
        writer.execute("INSERT INTO payloads SELECT seq, x'7b7d', 1132021055 FROM jobs")
        by_lane = "SELECT type, status, priority, count(*) FROM jobs GROUP BY 1, 2, 3"
        writer.execute(f"INSERT INTO counts {by_lane}")
    with closing(sqlite3.connect(path, isolation_level=None, factory=Recording)) as connection:
        connection.ran = []
        yield connection


@pytest.fixture(autouse=True)
def rolled_back(database: Recording) -> Iterator[None]:
    database.execute("BEGIN")
    yield
    database.execute("ROLLBACK")


def plan(database: Recording, sql: str, values: Any) -> list[str]:
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()]


def plans(database: Recording, work: Work) -> list[str]:
    """How SQLite goes about everything `work` asks of it."""
    database.ran = []
    work(database)
    asked = [each for each in database.ran if not each[0].startswith("PRAGMA")]
    return [step for sql, values in asked for step in plan(database, sql, values)]


def steps_of(database: Recording, work: Work) -> int:
    """About how many instructions SQLite needs for `work`, in hundreds."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    database.set_progress_handler(count, 100)
    work(database)
    database.set_progress_handler(None, 0)
    return steps


def walks(steps: list[str]) -> list[str]:
    """The steps that read a whole table or sort; given values are none, and controls are few."""
    given = (
        "SCAN chosen", "SCAN ended", "SCAN oldest", "SCAN controls", "SCAN (subquery-2)",
        "SCAN (subquery-3)",
    )  # fmt: skip
    return [
        step
        for step in steps
        if "TEMP B-TREE" in step
        or (step.startswith("SCAN") and "INDEX" not in step and "CONSTANT ROW" not in step)
        if step not in given
    ]


IN_KEY = "jobs_keyed (type=? AND tenant=? AND key=? AND status=?"
HOT: dict[str, tuple[tuple[object, ...], str]] = {
    "lane_heads": (("mail", 5, 10), "jobs_pending (type=? AND priority=?)"),
    "oldest_pending": (("mail", 5), "jobs_pending (type=? AND priority=?)"),
    "due": ((NOW, 500), "jobs_due (run_at<?)"),
    "next_due": ((), "jobs_due"),
    "expiring": ((NOW, 500), "jobs_expiring (expires_at>? AND expires_at<?)"),
    "next_expiry": ((), "jobs_expiring"),
    "held_by_daemon": ((), "jobs_processing"),
    "expired_leases": ((NOW, 500), "jobs_processing (lease_expires_at<?)"),
    "next_lease_expiry": ((), "jobs_processing"),
    "outlived": (("completed", True, NOW, 500), "jobs_finished (status=? AND <expr>=? AND "),
    "oldest_finished": (("completed", True), "jobs_finished (status=? AND <expr>=?"),
    "batch_counts": (("batch-7",), "jobs_batch (batch_id=?)"),
    "find_idempotency_key": (("once-8", None), "jobs_idempotency (idempotency_key=? AND tenant=?)"),
    "dead_of_type": (("rare", 0, 10), "jobs_unsuccessful_type (status=? AND type=? AND rowid>?)"),
    "newer_of_key": (("once-8", None, 0), "jobs_idempotency (idempotency_key=? AND tenant=? AND "),
    "last_seq": ((), "jobs"),
    "key_crowd": (("mail", None, "key-7", 3), IN_KEY),
    "last_in_front": (("mail", None, "key-7", 3), f"{IN_KEY} AND held_back=?)"),
    "first_held_back": (("mail", None, "key-7", 3), f"{IN_KEY} AND held_back=?)"),
    "running_of_key": (("mail", None, "key-7"), f"{IN_KEY})"),
    "ahead_in_key": (("mail", None, "key-7", 5, NOW, 1, 9), f"{IN_KEY} AND held_back=? AND pri"),
    "first_key": (("mail",), "jobs_keyed (type=?)"),
    "next_key": (("mail", None, "key-7"), "jobs_keyed (type=? AND tenant=? AND key>?)"),
    "next_tenants_key": (("mail", "acme"), "jobs_keyed (type=? AND tenant>?)"),
}


READS = ("SEARCH jobs", "SCAN jobs")


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_uses_its_index(database: Recording, name: str) -> None:
    values, index = HOT[name]
    steps = [step for step in plan(database, SQL[name], values) if step.startswith(READS)]
    assert steps
    assert all(index in step for step in steps)
    # Five rows of a batch are grouped after they were found.
    if name != "batch_counts":
        assert walks(plan(database, SQL[name], values)) == []


CHANGES = [
    name
    for name, sql in SQL.items()
    if sql.startswith(("UPDATE jobs", "DELETE")) or name in ("payload", "attempts", "log", "batch")
]


RIGHT = ("SEARCH", "SCALAR SUBQUERY", "LIST SUBQUERY", "SCAN json_each VIRTUAL TABLE INDEX 1")


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_goes_straight_to_its_row(database: Recording, name: str) -> None:
    sql = SQL[name]
    values: Any = (None,) * sql.count("?")
    if names := re.findall(r":(\w+)", sql):
        values = dict.fromkeys(names)
    steps = plan(database, sql, values)
    assert steps
    given = "CONSTANT ROW"
    assert [step for step in steps if not step.startswith(RIGHT) and given not in step] == []


def test_what_belongs_to_a_job_is_deleted_without_a_search(database: Recording) -> None:
    triggers = database.execute(
        "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '%AFTER DELETE%'"
    ).fetchall()
    deletes = re.findall(r"DELETE FROM [^;]+", "".join(sql for (sql,) in triggers))
    assert len(deletes) >= 5
    for sql in deletes:
        values = ("b",) * sql.count("OLD.")
        steps = plan(database, re.sub(r"OLD\.\w+", "?", sql), values)
        assert steps
        assert [step for step in steps if not step.startswith(RIGHT)] == []


def transaction(database: sqlite3.Connection) -> tuple[Transaction, JobCounts]:
    counts = JobCounts.read(database)
    if isinstance(database, Recording):
        # A daemon does this once, at its start.
        database.ran = []
    return Transaction(database, counts), counts


def claim(database: sqlite3.Connection) -> object:
    tx, _ = transaction(database)
    [found] = claims.claim(tx, [Wish([asking("mail", "image", workers=10, turn=5)], NOW)])
    assert len(found) == 10
    return found


def claim_within_limits(database: sqlite3.Connection) -> object:
    """With a type that is paused, one whose breaker is open, and one that has a token left."""
    tx, counts = transaction(database)
    counts.controls["paused"] = Control(paused_at=NOW, paused_by="user ada")
    counts.controls["mail"] = Control(
        breaker_since=NOW - 1, breaker_probe_at=NOW, breaker_reason="all failed"
    )
    rooms = {
        "paused": Room(10, NOW),
        "mail": Room(10, NOW, probe_every=1_000),
        "image": Room(10, NOW, Rate(1, 60_000)),
    }
    workers = [f"w{number}" for number in range(10)]
    [found] = claims.claim(tx, [Wish([Ask("default", workers, rooms, 5)], NOW)])
    assert sorted(each.chosen.type for each in found) == ["image", "mail"]
    tx.finish()
    return found


def settle(database: sqlite3.Connection) -> object:
    tx, _ = transaction(database)
    held = leases.read_held(database)
    return leases.extend(tx, [each.lease for each in held], [NOW] * len(held))


def submit(database: sqlite3.Connection) -> object:
    tx, _ = transaction(database)
    new = [new_job(now=NOW + 10**6, idempotency_key=f"new-{number}") for number in range(10)]
    return jobs.submit(tx, new, None, NOW)


def promote(database: sqlite3.Connection) -> object:
    return due.promote(transaction(database)[0], NOW + ROWS, 10)


def expire(database: sqlite3.Connection) -> object:
    return due.expire(transaction(database)[0], NOW + ROWS, 10)


def forget(database: sqlite3.Connection) -> object:
    kept = Retained({"completed": 0, "dead": 0}, idempotency_window=0)
    return retention.remove_outlived(transaction(database)[0], kept, NOW + ROWS, 10)


def cancel_some(database: sqlite3.Connection) -> object:
    query = JobQuery(statuses=tuple(sorted(CANCELLABLE)), type="mail", limit=40)
    found = cancel.find(database, query)
    assert len(found) == 40
    return cancel.cancel(transaction(database)[0], found, CANCELLABLE, NOW)


def next_times(database: sqlite3.Connection) -> object:
    kept = Retained({str(status): 1 for status in Status}, idempotency_window=1)
    held = retention.holdings(database, kept)
    return retention.next_outlived(database, kept), held, due.next_due(database)


@pytest.mark.parametrize(
    "work",
    [
        claim,
        claim_within_limits,
        settle,
        submit,
        promote,
        expire,
        forget,
        cancel_some,
        next_times,
    ],
    ids=lambda f: f.__name__,
)
def test_what_the_engine_does_all_day_never_walks_the_jobs(database: Recording, work: Work) -> None:
    steps = plans(database, work)
    assert steps
    assert walks(steps) == []


PLACES: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "ahead_in_lane": (
        ("mail", 5, NOW + ROWS, first_place(NOW) + ROWS, 101),
        [
            "jobs_pending (type=? AND priority=? AND run_at<?)",
            "jobs_pending (type=? AND priority=? AND run_at=? AND rowid<?)",
        ],
    ),
    "in_front": (("mail", 101), ["jobs_pending (type=?)"]),
    "running_of_type": ((100, "rare", 20), ["jobs_processing"]),
}
BOUNDED_COST = 100
"""Hundreds of instructions; to count all 5,000 of a type would take ten times as many."""


@pytest.mark.parametrize("name", PLACES)
def test_a_place_in_line_is_counted_on_an_index_up_to_a_bound(
    database: Recording, name: str
) -> None:
    values, indexes = PLACES[name]
    steps = [step for step in plan(database, SQL[name], values) if " jobs" in step]
    assert [step.split(" INDEX ")[1] for step in steps] == indexes
    assert steps_of(database, lambda c: c.execute(SQL[name], values).fetchall()) < BOUNDED_COST


def test_where_a_job_stands_is_told_without_walking_the_line(database: Recording) -> None:
    [last] = database.execute(
        "SELECT id FROM jobs WHERE status = 'pending' AND type = 'mail' ORDER BY run_at DESC"
    ).fetchone()

    def work(connection: sqlite3.Connection) -> object:
        _, counts = transaction(connection)
        wish = Wish([asking("mail", "image", workers=10, turn=5)], NOW)
        return read_standing(connection, last, wish, counts)

    steps = plans(database, work)
    assert steps
    assert [step for step in walks(steps) if "subquery" not in step] == []


def listing(**query: Any) -> Work:
    wanted = JobQuery(**query)

    def work(database: sqlite3.Connection) -> object:
        return jobs.list_jobs(database, wanted, JobCounts.read(database).by_status())

    return work


LISTS: dict[str, dict[str, Any]] = {
    "all": {},
    "next page": {"before_id": new_job(now=NOW + 1).id},
    "type": {"type": "mail"},
    "rare type": {"type": "rare"},
    "no such type": {"type": "unknown"},
    "batch": {"batch_id": "batch-7"},
    "correlation": {"correlation_id": "trace-7"},
    "idempotency key": {"idempotency_key": "once-8"},
    "no such idempotency key": {"idempotency_key": "unknown"},
    "key": {"key": "key-7"},
    "no such key": {"key": "unknown"},
    "created before": {"created_before": NOW + 1},
    "created before all": {"created_before": NOW},
    "created after all": {"created_after": NOW + 10**6},
    "common status": {"statuses": ("completed",)},
    "pending": {"statuses": ("pending",)},
    "rare status": {"statuses": ("dead",)},
    "discarded and type": {"statuses": ("discarded",), "type": "mail"},
    "two rare statuses": {"statuses": ("dead", "processing")},
    "no such status": {"statuses": ("discarded",)},
    "status and batch": {"statuses": ("completed",), "batch_id": "batch-7"},
    "status and type": {"statuses": ("completed",), "type": "mail"},
    "rare status and type": {"statuses": ("dead",), "type": "mail"},
    "type and batch": {"type": "mail", "batch_id": "batch-7"},
    "type and key": {"type": "mail", "key": "key-7"},
}
TO_CANCEL: dict[str, dict[str, Any]] = {
    "all": {},
    "type": {"type": "mail"},
    "pending of a type": {"type": "mail", "statuses": ("pending",)},
    "no pending of a type": {"type": "unknown", "statuses": ("pending",)},
    "running": {"statuses": ("processing",)},
    "batch": {"batch_id": "batch-7"},
    "correlation": {"correlation_id": "trace-7", "type": "mail"},
    "idempotency key": {"idempotency_key": "once-8"},
    "key": {"key": "key-7", "type": "mail"},
    "created before all": {"created_before": NOW, "type": "mail", "statuses": ("pending",)},
}
PAGE_COST = 1_000
"""Hundreds of instructions a page may take: sorting ten thousand places takes 750, a walk through
all jobs 1,200 and more."""


@pytest.mark.parametrize("name", LISTS)
def test_a_page_costs_what_is_on_it(database: Recording, name: str) -> None:
    assert steps_of(database, listing(**LISTS[name])) < PAGE_COST


@pytest.mark.parametrize("name", TO_CANCEL)
def test_finding_what_to_cancel_costs_what_is_found(database: Recording, name: str) -> None:
    given: dict[str, Any] = {"statuses": tuple(sorted(CANCELLABLE)), "limit": 500}
    query = JobQuery(**given | TO_CANCEL[name])
    assert steps_of(database, lambda c: cancel.find(c, query)) < PAGE_COST
    assert steps_of(database, lambda c: cancel.count(c, query, 1_000)) < PAGE_COST


def test_those_held_back_cost_a_claim_nothing(database: Recording) -> None:
    def claim_one(connection: sqlite3.Connection) -> object:
        [found] = claims.claim(transaction(connection)[0], [Wish([asking("mail")], NOW)])
        return found

    database.execute("UPDATE jobs SET held_back = 1 WHERE status = 'pending'")
    free = "SELECT seq FROM jobs WHERE type = 'mail' AND status = 'pending' LIMIT 2"
    database.execute(f"UPDATE jobs SET held_back = 0 WHERE seq IN ({free})")
    assert claim_one(database)
    assert steps_of(database, claim_one) < 20


def test_a_walk_would_be_noticed(database: Recording) -> None:
    def walk(connection: sqlite3.Connection) -> object:
        return connection.execute("SELECT count(*) FROM jobs WHERE worker = 'w'").fetchall()

    assert steps_of(database, walk) > PAGE_COST
    assert walks(plans(database, walk)) == ["SCAN jobs"]


def all_dead(database: Recording) -> None:
    """As many dead letters as there are finished jobs, all but a few of them of other types."""
    for status in ("dead", "discarded"):
        database.execute(
            "INSERT INTO jobs (seq, id, type, status, priority, max_retries, attempt, failures, "
            "created_at, run_at, started_at, finished_at) "
            "SELECT -seq - iif(?1 = 'dead', 0, 1), ?1 || seq, type, ?1, 5, 3, 1, 1, ?2, ?2, ?2, ?2 "
            "FROM jobs WHERE seq % 2 = 0 AND seq > 0",
            (status, NOW),
        )


DEAD_LISTS: dict[str, dict[str, Any]] = {
    "dead": {"statuses": ("dead",)},
    "dead of a type": {"statuses": ("dead",), "type": "mail"},
    "dead of a rare type": {"statuses": ("dead",), "type": "rare"},
    "dead of no type": {"statuses": ("dead",), "type": "unknown"},
    "next page": {"statuses": ("dead",), "type": "mail", "before_id": new_job(now=NOW).id},
    "discarded": {"statuses": ("discarded",)},
    "discarded of a rare type": {"statuses": ("discarded",), "type": "rare"},
}


@pytest.mark.parametrize("name", DEAD_LISTS)
def test_a_page_of_many_dead_jobs_costs_what_is_on_it(database: Recording, name: str) -> None:
    all_dead(database)
    work = listing(**DEAD_LISTS[name])
    assert steps_of(database, work) < PAGE_COST / 10
    steps = plans(database, work)
    assert any("jobs_unsuccessful" in step for step in steps)
    assert [step for step in walks(steps) if step not in ("SCAN counts", "SCAN controls")] == []


def named(database: Recording, seq: int) -> str:
    """The id of a row, made one that leads there."""
    digits = f"{seq >> 12:012x}"
    job_id = f"{digits[:8]}-{digits[8:]}-7{seq & 0xFFF:03x}-8000-000000000000"
    database.execute("UPDATE jobs SET id = ? WHERE seq = ?", (job_id, seq))
    return job_id


def test_a_replay_goes_straight_to_its_jobs(database: Recording) -> None:
    rows = database.execute("SELECT seq FROM jobs WHERE status = 'dead'").fetchall()
    ids = [named(database, row[0]) for row in rows]
    tx, _ = transaction(database)

    def replay(_: sqlite3.Connection) -> object:
        found = [dead.replay(tx, Replay(one, NOW, b"[]"), Act("ann", NOW)) for one in ids[1:]]
        assert found == [Found("dead")] * (SOME - 1)
        return dead.discard(tx, ids[0], Act("ann", NOW))

    steps = plans(database, replay)
    assert len(steps) > SOME
    assert walks(steps) == []
