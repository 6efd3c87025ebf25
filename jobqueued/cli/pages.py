"""A list of jobs as long as it may be, page by page."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobqueued.cli.documents import items, parts, value
from jobqueued.cli.filters import explain_nothing
from jobqueued.cli.waiting import ask_patiently
from jobqueued.client.daemon import Daemon

LARGEST_PAGE = 500


class Pages:
    """The jobs of a list, asked for page by page; `cursor` is where the next page starts."""

    def __init__(
        self,
        daemon: Daemon,
        query: list[tuple[str, str]],
        wanted: int | None,
        cursor: str | None,
        path: str = "/jobs",
    ) -> None:
        self._daemon = daemon
        self._path = path
        self._query = query
        self._wanted = wanted
        self.cursor = cursor

    def __iter__(self) -> Iterator[list[msgspec.Raw]]:
        while self._wanted is None or self._wanted > 0:
            page = self._ask()
            if self._wanted is not None:
                self._wanted -= len(page)
            yield page
            if self.cursor is None:
                return

    def explain_nothing(self) -> None:
        """Where no job came: say so if the type that was asked for is none."""
        explain_nothing(self._daemon, dict(self._query).get("type"))

    def _ask(self) -> list[msgspec.Raw]:
        size = LARGEST_PAGE if self._wanted is None else min(self._wanted, LARGEST_PAGE)
        query = [*self._query, ("limit", str(size))]
        if self.cursor is not None:
            query.append(("cursor", self.cursor))
        page = parts(ask_patiently(self._daemon, lambda: self._daemon.get(self._path, query)).body)
        self.cursor = value(page["next_cursor"])
        return items(page["jobs"])
