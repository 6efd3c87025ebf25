"""`jobqueued show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobqueued import clock
from jobqueued.cli.documents import indented, items, join, one_line, parts, value
from jobqueued.cli.history import draw_history
from jobqueued.cli.offline import or_from_file
from jobqueued.cli.options import check_ids, json_option, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import distance, plain
from jobqueued.cli.why import first_reason
from jobqueued.client.daemon import Daemon, job_path
from jobqueued.client.errors import Problem

if TYPE_CHECKING:
    import msgspec

TIMES = ("created_at", "run_at", "started_at", "finished_at", "expires_at", "lease_expires_at")
LABELS = ("correlation_id", "key", "idempotency_key", "batch_id", "schedule", "service", "tenant")
VERBATIM = ("payload", "result", "changes")
"""Fields with JSON of other people, of which every digit counts."""
WAITING = ("scheduled", "pending", "retrying")
LONGEST_VALUE = 20
"""Lines shown of a payload or a result."""


@click.command()
@click.argument("job_id", metavar="ID", callback=check_ids)
@json_option
@with_target
def show(target: Target, job_id: str, as_json: bool) -> None:
    """Show one job with all its attempts."""
    body, offline = or_from_file(
        target,
        lambda daemon: _ask(daemon, job_id, with_why=not as_json),
        lambda path: _read(path, job_id),
    )
    if as_json:
        click.echo(body)
    else:
        draw(parts(body))
    if offline is not None:
        offline.tell()


def _ask(daemon: Daemon, job_id: str, *, with_why: bool) -> bytes:
    job = parts(daemon.get(job_path(job_id)).body)
    waits = with_why and value(job["status"]) in WAITING
    why = {"why": first_reason(daemon, job_id)} if waits else {}
    return join({**job, **why, **parts(daemon.get(job_path(job_id, "attempts")).body)})


def _read(database: Path, job_id: str) -> bytes:
    from jobqueued.store.sqlite.offline import read_job

    job = read_job(database, job_id)
    if job is None:
        raise Problem(404, "not_found", f"there is no job {job_id}")
    return join(job)


def draw(raw: dict[str, msgspec.Raw]) -> None:
    """Print a job with its history."""
    from jobqueued.cli.screen import console, print_table, status_text, table

    screen = console()
    job = {name: value(each) for name, each in raw.items() if name not in VERBATIM}
    head = table("", "")
    head.show_header = False
    head.columns[1].no_wrap, head.columns[1].overflow = False, "fold"
    head.add_row("id", plain(job["id"]))
    head.add_row("type", plain(job["type"]))
    head.add_row("status", status_text(job["status"]))
    for name, text in _fields(job):
        head.add_row(name, text)
    if job.get("why"):
        head.add_row("why", plain(job["why"]))
    head.add_row("payload", _shown(raw["payload"], screen.width - 20))
    if one_line(raw["result"]) != "null":
        head.add_row("result", _shown(raw["result"], screen.width - 20))
    print_table(screen, head)
    draw_history(screen, job["attempts"], items(raw["changes"]))


def _fields(job: dict[str, Any]) -> Iterator[tuple[str, str]]:
    tries = f"{job['attempt']} started, {job['failures']} failed of {job['max_retries'] + 1}"
    yield "priority", str(job["priority"])
    yield "attempts", tries
    for name in TIMES:
        if job.get(name):
            when = distance(job[name], clock.now())
            yield name.replace("_", " "), f"{job[name]} ({when})"
    for name in LABELS:
        if job.get(name):
            yield name.replace("_", " "), plain(job[name])
    if job.get("worker"):
        yield "worker", plain(job["worker"])
    if job.get("progress"):
        yield "progress", _progress(job["progress"])
    if job.get("last_error"):
        yield "last error", plain(job["last_error"])


def _progress(progress: dict[str, Any]) -> str:
    return f"{progress['percent']:g} % {plain(progress.get('message') or '')}".rstrip()


def _shown(raw: msgspec.Raw, width: int) -> str:
    """A JSON value on one line where it fits, else the beginning of it on several."""
    line = one_line(raw)
    if len(line) <= width:
        return plain(line)
    lines = [plain(each) for each in indented(raw).splitlines()]
    if len(lines) > LONGEST_VALUE:
        lines[LONGEST_VALUE:] = ["… (--json prints all of it)"]
    return "\n".join(lines)
