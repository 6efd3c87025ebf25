"""The launcher an executor starts its processes through, and a new one when that has died."""

from __future__ import annotations

from jobqueued.executors.launcher_link import LauncherLink


class Launchers:
    """One launcher at work; one that died is kept until all it ran is dead too.

    Descriptors in `pass_fds` stay open in a launcher until its last process is dead.
    """

    def __init__(self, pass_fds: tuple[int, ...]) -> None:
        self._pass_fds = pass_fds
        self._links: list[LauncherLink] = []

    @property
    def pid(self) -> int | None:
        """The process id of the one at work, if there is one."""
        return self._links[-1].pid if self._links and self._links[-1].alive else None

    def current(self) -> LauncherLink:
        """The one at work, started when there is none."""
        if not self._links or not self._links[-1].alive:
            self._links = [link for link in self._links if not link.gone]
            self._links.append(LauncherLink(self._pass_fds))
        return self._links[-1]

    async def close(self) -> None:
        """End every process they started."""
        links, self._links = self._links, []
        for link in links:
            await link.close()
