"""What the running parts share: the store, the configuration now in force, and each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobqueued.config import Config
from jobqueued.engine.deadlines import Deadlines
from jobqueued.engine.meter import Meter
from jobqueued.engine.recent import Recent
from jobqueued.engine.running import Changes, RunningJobs
from jobqueued.store.interface import Store

if TYPE_CHECKING:
    from jobqueued.engine.breakers import Breakers
    from jobqueued.engine.dispatcher import Dispatcher
    from jobqueued.engine.gates import Gates
    from jobqueued.engine.keeper import Keeper
    from jobqueued.engine.promoter import Promoter
    from jobqueued.engine.reaper import Reaper
    from jobqueued.engine.remote import Remote
    from jobqueued.engine.retention import Retention


class Shared:
    """Handed to every part; the parts themselves are filled in by the service."""

    gates: Gates
    breakers: Breakers
    dispatcher: Dispatcher
    promoter: Promoter
    keeper: Keeper
    reaper: Reaper
    remote: Remote
    retention: Retention

    def __init__(self, config: Config, store: Store) -> None:
        self.config = config
        self.store = store
        self.running = RunningJobs()
        self.deadlines = Deadlines()
        self.changes = Changes()
        self.meter = Meter()
        self.recent = Recent()
        self.draining = False
        self.claiming = 0
        """How many claims are under way: on disk may be jobs of which nothing runs yet."""
        self.url = ""
        """Where handlers reach the daemon."""
