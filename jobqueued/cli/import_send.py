"""Sends the lines of an import in batches, several at a time, and sorts out what is refused."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from jobqueued.cli.import_lines import BadLine, Entry, LineReader, unwrapped
from jobqueued.cli.import_rejected import Rejected
from jobqueued.cli.import_source import Piece, Source
from jobqueued.client.errors import ClientError, Problem, Unreachable
from jobqueued.client.link import Link
from jobqueued.client.patience import Backoff, Patience

UNDER_WAY = 4
"""Batches on their way at a time."""
AWAY_SECONDS = 60.0
"""How long a daemon that answered before may be gone, to be restarted."""
_ABOUT_LINES = (400, 413, 422, 429)
_PLACE = re.compile(r"jobs\[(\d+)\]\.?(.*)", re.DOTALL)


class _Answer(msgspec.Struct):
    replayed: list[int] = []


_read_answer = msgspec.json.Decoder(_Answer).decode


@dataclass
class Tally:
    """What became of the lines so far."""

    lines: int = 0
    fit: int = 0
    """Submitted by this run; in a dry run, without fault."""
    there: int = 0
    rejected: int = 0
    bytes: int = 0
    waiting_for: str = ""
    """What keeps lines from being sent just now."""


class Importer:
    """Keeps a few batches under way until the source is at its end."""

    def __init__(
        self, link: Link, source: Source, reader: LineReader, rejected: Rejected, *, dry_run: bool,
        told: Callable[[Tally], None],
    ) -> None:  # fmt: skip
        self.tally = Tally()
        self._link = link
        self._source = source
        self._reader = reader
        self._rejected = rejected
        self._path = "/jobs/batch?dry_run=1" if dry_run else "/jobs/batch"
        self._told = told
        self._taking = asyncio.Lock()
        self._reached = False

    async def run(self) -> None:
        """Send every line."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(UNDER_WAY):
                    group.create_task(self._send_all())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _send_all(self) -> None:
        while pieces := await self._take():
            entries = [entry for piece in pieces if (entry := self._entry(piece))]
            if entries:
                await self._send(entries)
            self.tally.lines += len(pieces)
            self.tally.bytes += sum(piece.end - piece.start for piece in pieces)
            self._rejected.flush()
            self._told(self.tally)

    async def _take(self) -> list[Piece]:
        async with self._taking:
            return await self._source.take()

    def _entry(self, piece: Piece) -> Entry | None:
        piece = unwrapped(piece)
        try:
            return self._reader.read(piece)
        except BadLine as error:
            self._reject(piece, [f"the line {error}"])
            return None

    def _reject(self, piece: Piece, reasons: list[str]) -> None:
        self._rejected.write(piece, reasons)
        self.tally.rejected += 1

    async def _send(self, entries: Sequence[Entry]) -> None:
        body = b'{"jobs":[' + b",".join(entry.body for entry in entries) + b"]}"
        try:
            answer = await self._exchange(body, may_split=len(entries) > 1)
        except Problem as problem:
            if problem.status not in _ABOUT_LINES or problem.code == "http_status":
                raise
            await self._sort_out(entries, problem)
        else:
            there = len(_read_answer(answer).replayed)
            self.tally.there += there
            self.tally.fit += len(entries) - there

    async def _sort_out(self, entries: Sequence[Entry], problem: Problem) -> None:
        """Keep aside what is at fault and send the rest; in halves where nothing is named."""
        faults = _faults_by_place(problem)
        if faults or len(entries) == 1:
            others = []
            for place, entry in enumerate(entries):
                if place in faults or not faults:
                    self._reject(entry.piece, faults.get(place, [problem.detail]))
                else:
                    others.append(entry)
            parts = [others]
        else:
            half = len(entries) // 2
            parts = [list(entries[:half]), list(entries[half:])]
            if [fault.field for fault in problem.errors] == ["jobs"]:
                self._source.most = min(self._source.most, half)
        for part in parts:
            if part:
                await self._send(part)

    async def _exchange(self, body: bytes, *, may_split: bool) -> bytes:
        """Send as often as it takes; a full queue may have room for less than a whole batch."""
        backoff, patience = Backoff(), Patience(AWAY_SECONDS, repeatable=True)
        while True:
            try:
                answer = await self._link.exchange("POST", self._path, body, 0.0)
            except ClientError as error:
                is_up = isinstance(error, Problem) and error.status in (429, 503)
                if may_split and isinstance(error, Problem) and error.code == "queue_full":
                    raise
                if is_up:
                    patience = Patience(AWAY_SECONDS, repeatable=True)
                elif not (self._reached and isinstance(error, Unreachable)):
                    raise
                pause = backoff.after(error) if is_up else patience.pause_after(error)
                await self._wait(pause, error)
            else:
                self._reached = True
                self._tell_waiting("")
                return answer

    async def _wait(self, seconds: float, error: ClientError) -> None:
        self._reached = self._reached or isinstance(error, Problem)
        self._tell_waiting(str(error))
        await asyncio.sleep(seconds)

    def _tell_waiting(self, text: str) -> None:
        if text != self.tally.waiting_for:
            self.tally.waiting_for = text
            self._told(self.tally)


def _faults_by_place(problem: Problem) -> dict[int, list[str]]:
    """What is wrong with each job of a batch that has faults."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for fault in problem.errors:
        place = _PLACE.fullmatch(fault.field)
        if place:
            found[int(place[1])].append(f"{place[2] or 'the line'}: {fault.message}")
    return dict(found)
