"""Every setting that chooses a handler, or means something for some kinds of handler only."""

from __future__ import annotations

from jobqueued.config.functions import Directories, Function
from jobqueued.config.kinds import Choice, Duration, FilePath, Name, Program, Size, Switch, Whole
from jobqueued.config.lists import Command, Environment, ExitCodes
from jobqueued.config.setting import EVERY_TYPE, HANDLERS, TYPE, Setting
from jobqueued.config.webhooks import (
    Credential,
    Headers,
    Hosts,
    OneOrMore,
    PayloadField,
    SecretFile,
    Url,
)

ONE_OF = f"one of {', '.join(HANDLERS)} must be set"
PROCESSES = ("command", "python")

CHOOSING_SETTINGS = (
    Setting(
        sections=(TYPE,),
        name="command",
        kind=Command(),
        otherwise=ONE_OF,
        handlers=("command",),
        help="The program that runs a job, and its arguments; no shell is involved.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.url",
        kind=Url(),
        otherwise="url_from must be set",
        handlers=("http",),
        help="The address that payloads are posted to.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.url_from",
        kind=PayloadField(),
        otherwise="url must be set",
        handlers=("http",),
        help="The field of the payload that holds the address; needs allowed_hosts.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.allowed_hosts",
        kind=Hosts(),
        otherwise="url_from is not allowed",
        handlers=("http",),
        help="Hosts that url_from may lead to; *.example.com are all names below example.com.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.allow_private",
        kind=Switch(),
        default=False,
        handlers=("http",),
        help="Whether url_from may lead to private, loopback and link-local addresses.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.secret_file",
        kind=OneOrMore(SecretFile()),
        otherwise="requests are not signed",
        handlers=("http",),
        help="Files with the secrets that sign requests, relative to the configuration file.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.secret_credential",
        kind=OneOrMore(Credential()),
        otherwise="requests are not signed",
        handlers=("http",),
        help="The same from $CREDENTIALS_DIRECTORY, where systemd puts what LoadCredential= names.",
    ),
    Setting(
        sections=(TYPE,),
        name="http.headers",
        kind=Headers(),
        otherwise="none",
        handlers=("http",),
        help="Headers for every request, beside those that jobqueued sets.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="http.connect_timeout",
        kind=Duration("10ms", "10m"),
        default="10s",
        handlers=("http",),
        help="How long it may take to connect; timeout is for the request as a whole.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="http.ca_file",
        kind=FilePath("a file of CA certificates"),
        otherwise="those of the system",
        handlers=("http",),
        help="Certificates of the authorities that https servers are checked against.",
    ),
    Setting(
        sections=(TYPE,),
        name="python",
        kind=Function(),
        otherwise=ONE_OF,
        handlers=("python",),
        help="The function that runs a job, async or plain, called in a process of its own.",
    ),
    Setting(
        sections=(TYPE,),
        name="remote",
        kind=Switch(),
        otherwise=ONE_OF,
        handlers=("remote",),
        help="true: workers elsewhere claim the jobs over HTTP.",
    ),
)

REFINING_SETTINGS = (
    Setting(
        sections=(TYPE,),
        name="result",
        kind=Choice(("stdout",)),
        otherwise="no result",
        handlers=("command",),
        help="stdout: what the command prints is the job's result.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="fatal_exit_codes",
        kind=ExitCodes(),
        default=[64, 65],
        handlers=("command",),
        help="Exit codes that end a job at once, without further attempts.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="python_path",
        kind=Directories(),
        otherwise="where the interpreter looks by itself",
        handlers=("python",),
        help="Directories searched for the module first; relative to the configuration file.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="interpreter",
        kind=Program("a Python interpreter"),
        otherwise="the one jobqueued runs on",
        handlers=("python",),
        help="The Python of the application, such as that of its virtual environment.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="max_jobs_per_child",
        kind=Whole(1, 1_000_000_000),
        default=10_000,
        handlers=("python",),
        help="After how many jobs a process is replaced by a fresh one.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="kill_grace",
        kind=Duration("0s", "1h"),
        default="5s",
        handlers=PROCESSES,
        help="Time between SIGTERM and SIGKILL when a job is stopped.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="memory",
        kind=Size("1MiB", "16TiB"),
        otherwise="no limit",
        handlers=PROCESSES,
        help="Most memory each process of a job may use.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="env",
        kind=Environment(),
        otherwise="none",
        handlers=PROCESSES,
        help="Variables for the process; those of [defaults] and of the type are joined.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="cwd",
        kind=FilePath("a directory"),
        otherwise="the directory the daemon was started in",
        handlers=PROCESSES,
        help="The directory the process runs in; relative to the configuration file.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="user",
        kind=Name("a user"),
        otherwise="the user jobqueued runs as",
        handlers=PROCESSES,
        help="The user the process runs as; needs a daemon that runs as root.",
    ),
)
