"""Every setting, once: name, section, kind, default, bounds, help."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jobqueued.config.declare_handlers import CHOOSING_SETTINGS, REFINING_SETTINGS
from jobqueued.config.kinds import (
    Choice,
    Duration,
    FilePath,
    Name,
    Number,
    PerTime,
    Size,
    Switch,
    Whole,
)
from jobqueued.config.lists import Addresses
from jobqueued.config.schema_source import PayloadSchema
from jobqueued.config.setting import EVERY_TYPE, POOL, TYPE, Setting
from jobqueued.model.job import MAX_PRIORITY, MAX_RETRIES

SETTINGS: tuple[Setting, ...] = (
    Setting(
        sections=("server",),
        name="listen",
        kind=Addresses(),
        otherwise="127.0.0.1:5627 and jobqueued.sock in the runtime directory",
        needs_restart=True,
        help="Addresses of the API: host:port on loopback, or unix: and the path of a socket.",
    ),
    Setting(
        sections=("server",),
        name="max_body",
        kind=Size("1KiB", "256MiB"),
        default="8MiB",
        help="Largest request body the API reads.",
    ),
    Setting(
        sections=("store",),
        name="path",
        kind=FilePath("the database file"),
        otherwise="jobs.db in $STATE_DIRECTORY, else jobqueued/jobs.db in the XDG state directory",
        needs_restart=True,
        help="The database file; it is made when it is not there.",
    ),
    Setting(
        sections=("store",),
        name="durability",
        kind=Choice(("full", "normal")),
        default="full",
        needs_restart=True,
        help="full: on disk before every answer; normal: a power cut may lose the last moments.",
    ),
    Setting(
        sections=("queue",),
        name="max_depth",
        kind=Whole(1, 100_000_000),
        default=100_000,
        help="Most jobs that may wait; past it submissions are answered with 429.",
    ),
    Setting(
        sections=("queue",),
        name="max_payload",
        kind=Size("1KiB", "8MiB"),
        default="64KiB",
        help="Largest payload of one job, as JSON.",
    ),
    Setting(
        sections=("queue",),
        name="max_batch",
        kind=Whole(1, 10_000),
        default=100,
        help="Most jobs in one batch.",
    ),
    Setting(
        sections=("queue",),
        name="idempotency_window",
        kind=Duration("0s", "365d"),
        default="24h",
        help="How long after submission an idempotency key still finds its job.",
    ),
    Setting(
        sections=("shutdown",),
        name="drain_timeout",
        kind=Duration("0s", "24h"),
        default="30s",
        help="How long running jobs may finish on shutdown; then they are told to stop.",
    ),
    Setting(
        sections=("shutdown",),
        name="kill_timeout",
        kind=Duration("0s", "1h"),
        default="10s",
        help="How long jobs told to stop on shutdown may take; then they are killed.",
    ),
    Setting(
        sections=("retention",),
        name="completed",
        kind=Duration("0s", "3650d"),
        default="7d",
        help="How long completed jobs are kept.",
    ),
    Setting(
        sections=("retention",),
        name="dead",
        kind=Duration("0s", "3650d"),
        default="30d",
        help="How long dead and discarded jobs are kept.",
    ),
    Setting(
        sections=("retention",),
        name="cancelled",
        kind=Duration("0s", "3650d"),
        default="7d",
        help="How long cancelled and expired jobs are kept.",
    ),
    Setting(
        sections=(POOL,),
        name="workers",
        kind=Whole(1, 1000),
        default=10,
        help="How many jobs of the pool run at the same time.",
    ),
    Setting(
        sections=(POOL,),
        name="max_share",
        kind=Number(0.01, 1.0),
        default=0.8,
        help="Largest share of the workers for one type, where the pool serves several.",
    ),
    *CHOOSING_SETTINGS,
    Setting(
        sections=EVERY_TYPE,
        name="pool",
        kind=Name("a pool"),
        default="default",
        help="The pool whose workers run the jobs.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="timeout",
        kind=Duration("10ms", "30d"),
        default="5m",
        help="How long one attempt may run; then it is stopped and counts as failed.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="max_retries",
        kind=Whole(0, MAX_RETRIES),
        default=5,
        help="How often a failed job is tried again, where its submission does not say.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="priority",
        kind=Whole(0, MAX_PRIORITY),
        default=5,
        help="From 0 (last) to 9 (first), where the submission does not say.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="backoff.base",
        kind=Duration("0s", "24h"),
        default="30s",
        help="How long a job waits after its first failure.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="backoff.factor",
        kind=Number(1.0, 10.0),
        default=2.0,
        help="By how much the wait grows with every further failure.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="backoff.max",
        kind=Duration("0s", "30d"),
        default="1h",
        help="Longest wait between attempts, before jitter.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="backoff.jitter",
        kind=Duration("0s", "24h"),
        default="15s",
        help="Up to this much is added to every wait, by chance, so that retries spread.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="lease",
        kind=Duration("5s", "1h"),
        default="60s",
        help="How long a job stays with a worker that shows no life; extended while it lives.",
    ),
    Setting(
        sections=(TYPE,),
        name="max_running",
        kind=Whole(1, 1000),
        otherwise="no limit but the pool's",
        help="How many jobs of the type run at the same time, at most.",
    ),
    Setting(
        sections=(TYPE,),
        name="max_running_per_key",
        kind=Whole(1, 1000),
        otherwise="no limit but the type's",
        help="How many jobs of one key run at the same time; its others wait and hold up nobody.",
    ),
    Setting(
        sections=(TYPE,),
        name="rate",
        kind=PerTime("10000/s"),
        otherwise="no limit",
        help="How many jobs of the type may start in a time; at once one second's worth, or one.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="breaker",
        kind=Switch(),
        otherwise="on, as the four settings below say",
        help="false: a type goes on whatever fails; true: it does not, whatever [defaults] say.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="breaker.error_rate",
        kind=Number(0.01, 1.0),
        default=0.8,
        help="The share of attempts that must have failed for the breaker to open.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="breaker.window",
        kind=Duration("1s", "24h"),
        default="5m",
        help="How far back attempts are looked at.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="breaker.min_attempts",
        kind=Whole(1, 1_000_000),
        default=20,
        help="How many attempts must have ended within the window, fewer never open it.",
    ),
    Setting(
        sections=EVERY_TYPE,
        name="breaker.probe_every",
        kind=Duration("100ms", "24h"),
        default="60s",
        help="How often one job is tried while the breaker is open; one that works closes it.",
    ),
    Setting(
        sections=(TYPE,),
        name="confirm_replay",
        kind=Switch(),
        default=False,
        help="Whether dead jobs are replayed only by who says `confirm`, or --yes.",
    ),
    Setting(
        sections=(TYPE,),
        name="payload_schema",
        kind=PayloadSchema(),
        otherwise="every payload is taken",
        help="What payloads must look like, checked when a job is submitted, not later.",
    ),
    *REFINING_SETTINGS,
)


@cache
def settings_of(section: str) -> dict[str, Setting]:
    """The settings that may appear in one section, by name."""
    return {setting.name: setting for setting in SETTINGS if section in setting.sections}


def defaults_of(section: str) -> dict[str, Any]:
    """What holds in a section in which nothing is set."""
    settings = settings_of(section).values()
    return {
        setting.name: setting.kind.read(setting.default, Path("/"))
        for setting in settings
        if setting.default is not None
    }


def section_names() -> list[str]:
    """The tables at the top of a file: `server`, `pools`, `types` and so on."""
    sections = (section for setting in SETTINGS for section in setting.sections)
    return list(dict.fromkeys(section.split(".")[0] for section in sections))
