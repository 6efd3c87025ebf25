"""Launchers that are killed, and handlers that do all they can to get away."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from tests.acceptance.support import filled_in
from tests.fault.campaign import Campaign
from tests.fault.faults import fault
from tests.fault.kills import children_of

PLAIN = 'command = ["{python}", "-S", "{root}/tests/fault/handlers/command.py", "{place}"]'
ESCAPING = (
    "command = ['sh', '-c', 'trap \"\" TERM; (setsid sleep 600 &); "
    "exec env -i JOB_ID=$JOB_ID JOB_ATTEMPT=$JOB_ATTEMPT PYTHONPATH=$PYTHONPATH "
    "setsid -w {python} -S {root}/tests/fault/handlers/command.py {place}']"
)
"""Ignores SIGTERM, leaves a process behind that holds the pipes, forgets its environment, and works
in a session of its own."""


def let_escape(campaign: Campaign) -> None:
    """Have commands that forget whose they are."""
    daemon = campaign.daemon
    text = daemon.config_path.read_text()
    plain, escaping = (filled_in(line, daemon.place) for line in (PLAIN, ESCAPING))
    assert plain in text
    daemon.config_path.write_text(text.replace(plain, escaping))


@fault("kill -9 of a launcher", ends_daemon=False, times=20, prepare=let_escape)
async def kill_launcher(campaign: Campaign) -> None:
    """All that it ran is ended before anything runs again."""
    await campaign.a_while()
    launchers = children_of(campaign.daemon.process.pid)
    if launchers:
        victim = campaign.chance.choice(launchers)
        campaign.history.injected("kill -9 of a launcher", victim)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    await campaign.a_while(1.0)


@fault("kill -9 while handlers try to get away", ends_daemon=True, times=20, prepare=let_escape)
async def kill_daemon_of_escaping(campaign: Campaign) -> None:
    await campaign.a_while(1.0)
    await campaign.crash()
