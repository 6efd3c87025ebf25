"""`jobqueued submit`."""

from __future__ import annotations

import json
import sys

import click

from jobqueued.cli.documents import is_terminal, one_line, parts, value
from jobqueued.cli.options import json_option, read_seconds, seconds, with_target
from jobqueued.cli.target import Target
from jobqueued.cli.text import coloured, plain
from jobqueued.cli.waiting import wait_for
from jobqueued.client.daemon import Answer
from jobqueued.model.job import MAX_PRIORITY, MAX_RETRIES

FOREVER = -1.0


class WaitCommand(click.Command):
    """Lets `--wait` stand alone: `--wait hello` names a type, `--wait 5s` a time."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spell_out_wait(args))


def spell_out_wait(args: list[str]) -> list[str]:
    """Write a `--wait` that has no time after it as `--wait=forever`."""
    spelled: list[str] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*spelled, word, *left]
        if word == "--wait":
            timed = bool(left) and read_seconds(left[0]) is not None
            word = f"--wait={left.pop(0)}" if timed else "--wait=forever"
        spelled.append(word)
    return spelled


def wait_time(text: str) -> float:
    """A time to wait, or `forever`."""
    return FOREVER if text == "forever" else seconds(text)


@click.command(cls=WaitCommand)
@click.argument("type_name", metavar="TYPE")
@click.argument("payload", metavar="[JSON or -]", required=False)
@click.option("--priority", type=click.IntRange(0, MAX_PRIORITY), help="0 (last) to 9 (first).")
@click.option(
    "--max-retries", type=click.IntRange(0, MAX_RETRIES), help="Attempts after the first."
)
@click.option(
    "--delay",
    "delay_seconds",
    type=seconds,
    metavar="DURATION",
    help="Run this much later: 90s, 5m, 24h.",
)
@click.option("--run-at", metavar="TIME", help="Run then: 2026-01-31T12:00:00Z.")
@click.option(
    "--expires-in",
    "expires_in_seconds",
    type=seconds,
    metavar="DURATION",
    help="Do not start it after this time.",
)
@click.option("--expires-at", metavar="TIME", help="Do not start it after then.")
@click.option("--idempotency-key", metavar="TEXT", help="The same key again is the same job.")
@click.option("--correlation-id", metavar="TEXT", help="Free, for searching.")
@click.option("--key", metavar="TEXT", help="Free, for limits per key.")
@click.option(
    "--wait",
    "patience",
    type=wait_time,
    metavar="[DURATION]",
    help="Wait for the end: exit 0 when completed, 1 when not.",
)
@json_option
@with_target
def submit(
    target: Target,
    type_name: str,
    payload: str | None,
    patience: float | None,
    as_json: bool,
    **fields: object,
) -> None:
    """Submit a job and print its id.

    TYPE is a name from the configuration. The payload is JSON; `-` reads it from
    standard input.
    """
    daemon = target.daemon()
    body = request_body(type_name, read_payload(payload), fields)
    answer = daemon.post("/jobs", body)
    job_id = str(answer.document()["id"])
    if not as_json:
        click.echo(job_id)
    if patience is None:
        _tell_submitted(answer, as_json)
        return
    ended = wait_for(daemon, job_id, None if patience == FOREVER else patience)
    _tell_ended(ended, as_json)
    if ended.document()["status"] != "completed":
        raise click.exceptions.Exit(1)


def read_payload(argument: str | None) -> bytes | None:
    """The payload as it was given, once it is known to be JSON."""
    if argument is None:
        return None
    raw = sys.stdin.buffer.read() if argument == "-" else argument.encode(errors="surrogateescape")
    try:
        # Numbers stay text: only the daemon decides how large one may be.
        json.loads(raw.decode(), parse_int=str, parse_float=str, parse_constant=_no_number)
    except RecursionError:
        raise click.UsageError("the payload is nested too deeply") from None
    except ValueError as error:
        hint = """write it as JSON, such as '{"name": "world"}'"""
        raise click.UsageError(f"the payload is not JSON: {error}; {hint}") from error
    return raw


def request_body(type_name: str, payload: bytes | None, fields: dict[str, object]) -> bytes:
    """The body of `POST /jobs`; the payload goes in untouched."""
    given = {name: each for name, each in fields.items() if each is not None}
    head = json.dumps({"type": type_name, **given}).encode()
    return head if payload is None else head[:-1] + b', "payload": ' + payload + b"}"


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def _tell_submitted(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(answer.body)
    elif sys.stdout.isatty():
        again = answer.headers.get("Idempotency-Replayed") == "true"
        status = answer.document()["status"]
        click.echo(f"this job was there already, {status}" if again else f"submitted, {status}")


def _tell_ended(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(answer.body)
    completed = answer.document()["status"] == "completed"
    if not completed:
        click.echo(f"{coloured('error:', 'red')} {ending(answer.body)}", err=True)
    elif sys.stdout.isatty() and not as_json:
        click.echo(ending(answer.body))


def ending(body: bytes) -> str:
    """How a job ended, in a line: its status, then its result or its last error."""
    job = parts(body)
    status, error = str(value(job["status"])), value(job["last_error"])
    if status == "completed":
        result = one_line(job["result"])
        return status if result == "null" else f"{status}: {plain(result)}"
    if not is_terminal(status):
        status = f"not over yet, {status}"
    return f"{status}: {plain(error)}" if error else status
