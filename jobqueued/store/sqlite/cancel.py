"""Cancelling: one job by its id, or all that fit a filter, a bounded number at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence

import msgspec

from jobqueued.model.ids import place_of
from jobqueued.model.job import WAITING, Status
from jobqueued.model.submission import JobQuery
from jobqueued.store.sqlite.counts import JobCounts, Transaction
from jobqueued.store.sqlite.jobs import conditions, indexes_of


def cancel(
    tx: Transaction, job_ids: Sequence[str], statuses: Collection[str], now: int
) -> list[str | None]:
    """Cancel waiting jobs and mark processing ones, if they are in one of `statuses`.

    The status each had before; None where there is no such job.
    """
    rows = tx.many("states", [(place_of(job_id),) for job_id in job_ids])
    known = {job_id: rest for job_id, *rest in rows}
    found = {job_id: known[job_id] for job_id in job_ids if job_id in known}
    waiting, running = [], []
    for job_id, (job_type, priority, status, tenant, key) in found.items():
        if status in WAITING and status in statuses:
            waiting.append((place_of(job_id), now))
            tx.moved(job_type, priority, status, Status.CANCELLED)
            tx.touched(job_type, tenant, key)
        elif status == Status.PROCESSING and status in statuses:
            running.append((place_of(job_id),))
    tx.many("cancel_waiting", waiting)
    tx.many("request_cancel", running)
    return [found[job_id][2] if job_id in found else None for job_id in job_ids]


def narrowed(query: JobQuery, counts: JobCounts) -> JobQuery:
    """The query without the statuses in which there is nothing, so that nobody searches there."""
    if query.type is None:
        return query
    statuses = tuple(status for status in query.statuses if counts.of(query.type, status))
    return msgspec.structs.replace(query, statuses=statuses)


def find(connection: sqlite3.Connection, query: JobQuery) -> list[str]:
    """The ids of some jobs that fit and can be cancelled."""
    found: list[str] = []
    for source, condition, order in _sources(query):
        sql, values = _select("id", query, source, condition)
        limit = query.limit - len(found)
        rows = connection.execute(f"{sql}{order} LIMIT ?", (*values, limit)).fetchall()
        found += [row[0] for row in rows]
    return found


def count(connection: sqlite3.Connection, query: JobQuery, most: int) -> int:
    """How many jobs fit and can be cancelled, counted no further than `most`."""
    found = 0
    for source, condition, _ in _sources(query):
        sql, values = _select("1", query, source, condition)
        bounded = f"SELECT count(*) FROM ({sql} LIMIT ?)"
        found += connection.execute(bounded, (*values, most - found)).fetchone()[0]
    return found


def _select(what: str, query: JobQuery, source: str, condition: str) -> tuple[str, list[object]]:
    wanted, values = conditions(query)
    return f"SELECT {what} FROM {source} WHERE {' AND '.join([condition, *wanted])}", values


def _sources(query: JobQuery) -> Iterator[tuple[str, str, str]]:
    """Where to look, for what, in which order.

    A label leads to its jobs, newest first, so that the caller can go on below the last of them.
    Without one each status has an index, which those that are cancelled leave: no order is needed.
    """
    if query.has_label:
        names = ", ".join(f"'{Status(status)}'" for status in query.statuses)
        yield "jobs", f"+status IN ({names}) AND cancel_requested = 0", " ORDER BY seq DESC"
        return
    for status in query.statuses:
        asked = " AND cancel_requested = 0" if status == Status.PROCESSING else ""
        for index, condition in indexes_of(status, query):
            source = f"jobs INDEXED BY {index}"
            yield source, f"{condition} AND status = '{Status(status)}'{asked}", ""
