"""The `jobqueued` command: finds the subcommand, loads only that, and turns errors into exits."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from jobqueued import __version__
from jobqueued.cli.errors import describe
from jobqueued.cli.streams import set_up_streams
from jobqueued.model.errors import JobqueuedError

IO_ERROR = 74
INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell makes of SIGPIPE, which ends other tools there."""

COMMANDS = {
    "serve": "jobqueued.cli.serve:serve",
    "check": "jobqueued.cli.check:check",
    "init": "jobqueued.cli.init:init",
    "status": "jobqueued.cli.status:status",
    "submit": "jobqueued.cli.submit:submit",
    "show": "jobqueued.cli.show:show",
    "list": "jobqueued.cli.list:list_jobs",
    "wait": "jobqueued.cli.wait:wait",
    "logs": "jobqueued.cli.logs:logs",
    "cancel": "jobqueued.cli.cancel:cancel",
    "run": "jobqueued.cli.act:run",
    "why": "jobqueued.cli.why:why",
    "types": "jobqueued.cli.types:types",
    "pause": "jobqueued.cli.types:pause",
    "resume": "jobqueued.cli.types:resume",
    "dlq": "jobqueued.cli.dlq:dlq",
    "import": "jobqueued.cli.import_jobs:import_jobs",
    "export": "jobqueued.cli.export:export",
    "backup": "jobqueued.cli.backup:backup",
    "work": "jobqueued.cli.work:work",
    "progress": "jobqueued.cli.progress:progress",
    "doctor": "jobqueued.cli.doctor:doctor",
}


class LazyGroup(click.Group):
    """Knows every subcommand by name and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{_did_you_mean(args[0])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click itself would exit with 1, which says that something was refused.
            _drop_output()
            raise click.exceptions.Exit(BROKEN_PIPE) from None


def _did_you_mean(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, message="jobqueued %(version)s")
@click.option("--url", metavar="URL", help="Address of the daemon: http://HOST:PORT or unix:/PATH.")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration file.")
def cli(url: str | None, config: Path | None) -> None:
    """A durable job queue for one machine."""


def main() -> int:
    """Run the command line and answer with its exit code."""
    set_up_streams()
    try:
        return _run()
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except JobqueuedError as error:
        describe(error)
        return error.exit_code
    except OSError as error:
        describe(error)
        return IO_ERROR


def _run() -> int:
    code = cli.main(prog_name="jobqueued", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    """Nobody reads any more: keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
