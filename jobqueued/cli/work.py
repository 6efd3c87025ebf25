"""`jobqueued work`: a remote worker that runs a command per job."""

from __future__ import annotations

import os
from typing import Any

import click

from jobqueued.cli.options import seconds, with_target
from jobqueued.cli.target import Target


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Jobs at the same time.",
)
@click.option(
    "--lease",
    type=seconds,
    metavar="DURATION",
    help="How long a job stays ours without a heartbeat; left out, the type's own.",
)
@click.option(
    "--drain",
    type=seconds,
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="How long running jobs may finish when the worker is told to stop.",
)
@click.option("--result", type=click.Choice(["stdout"]), help="What is the result; else nothing.")
@click.option("--name", metavar="TEXT", help="Who works, as shown on the jobs.")
@with_target
def work(
    target: Target,
    type_name: str,
    command: tuple[str, ...],
    result: str | None,
    **options: Any,
) -> None:
    """Run COMMAND for every job of TYPE, on this machine.

    The type has `remote = true` there. The payload comes as JSON on standard
    input, JOB_ID and more in the environment. Exit 0 completes a job, 64 and 65
    end it for good, after any other exit it is tried again.
    """
    import uvloop

    from jobqueued.cli.work_runner import Runner, command_type
    from jobqueued.observe.log import set_up_log
    from jobqueued.worker import Worker

    set_up_log()
    runner = Runner(command_type(type_name, command, result == "stdout"))
    addresses = target.daemon().addresses
    key = os.environ.get("JOBQUEUED_KEY")
    worker = Worker(addresses, {type_name: runner.run}, key=key, **options)
    uvloop.run(runner.serve(worker))
