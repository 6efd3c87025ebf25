"""The files as they are after a power cut: what was synced, and chance for the rest."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

from tests.fault.power.chance import ALL, Fate
from tests.fault.power.recording import CREATED, EMPTIED, NO_FILE, Kind, Operation

SECTOR = 512


class Write(NamedTuple):
    """Data that was written and not synced yet."""

    number: int
    offset: int
    data: bytes

    def sectors(self) -> range:
        return range(self.offset // SECTOR, (self.offset + len(self.data) - 1) // SECTOR + 1)

    def within(self, sector: int) -> tuple[int, bytes]:
        """The part of it that falls into a sector, and where that part begins."""
        first = max(self.offset, sector * SECTOR)
        last = min(self.offset + len(self.data), (sector + 1) * SECTOR)
        return first, self.data[first - self.offset : last - self.offset]


class Resize(NamedTuple):
    """A new length that was not synced yet."""

    number: int
    size: int


Change = Write | Resize


@dataclass(slots=True, eq=False)
class Node:
    """A file or a directory, whatever its names are."""

    is_directory: bool = False
    synced: bytearray = field(default_factory=bytearray)
    """Without the zeros it may end in."""
    synced_size: int = 0
    size: int = 0
    """As the process sees it."""
    unsynced: list[Change] = field(default_factory=list)

    def write(self, number: int, offset: int, data: bytes) -> None:
        self.unsynced.append(Write(number, offset, data))
        self.size = max(self.size, offset + len(data))

    def resize(self, number: int, size: int) -> None:
        self.unsynced.append(Resize(number, size))
        self.size = size

    def sync(self) -> None:
        """Everything up to now is on the disk."""
        for change in self.unsynced:
            self.synced_size = apply(self.synced, self.synced_size, change)
        self.unsynced.clear()


def apply(content: bytearray, size: int, change: Change) -> int:
    """Make a change to a content of some size; the size after it."""
    if isinstance(change, Resize):
        del content[change.size :]
        return change.size
    overwrite(content, change.offset, change.data)
    return max(size, change.offset + len(change.data))


def overwrite(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Naming(NamedTuple):
    """A change of names in a directory that was not synced yet."""

    number: int
    directory: str
    gone: str | None
    new: str | None
    node: Node | None


Names = dict[str, Node]


class Disk:
    """The state of the files below one directory, moved on operation by operation."""

    def __init__(self, root: Path) -> None:
        self.root = str(root.resolve())
        self.number = 0
        """Operations so far."""
        self.names: Names = {self.root: Node(is_directory=True)}
        """As the process sees them."""
        self.synced_names: Names = dict(self.names)
        self.unsynced_names: list[Naming] = []
        self._open: dict[int, tuple[str, Node]] = {}

    def follow(self, operations: Iterable[Operation]) -> None:
        """Do all of them."""
        for operation in operations:
            self.do(operation)

    def do(self, operation: Operation) -> None:
        """Do one more operation."""
        match operation.kind:
            case Kind.OPENED:
                self._opened(operation)
            case Kind.CLOSED:
                del self._open[operation.descriptor]
            case Kind.SYNCED:
                self._synced(operation)
            case Kind.WRITTEN | Kind.RESIZED | Kind.ALLOCATED:
                self._changed(operation)
            case _:
                self._named(operation)
        self.number += 1

    def _opened(self, operation: Operation) -> None:
        name = operation.name
        if operation.offset & CREATED:
            self._name(None, name, Node())
        # What was there before and is only read has no part in this.
        node = self.names.get(name) or Node(operation.size < 0, size=operation.size)
        if operation.offset & EMPTIED and node.size:
            node.resize(self.number, 0)
        self._open[operation.descriptor] = name, node

    def _synced(self, operation: Operation) -> None:
        name, node = self._open[operation.descriptor]
        if not node.is_directory:
            return node.sync()
        waiting = [naming for naming in self.unsynced_names if naming.directory != name]
        for naming in self.unsynced_names:
            if naming.directory == name:
                rename(self.synced_names, naming)
        self.unsynced_names = waiting

    def _changed(self, operation: Operation) -> None:
        node = self._node(operation)
        if operation.kind is Kind.WRITTEN:
            node.write(self.number, operation.offset, operation.data)
        elif operation.kind is Kind.RESIZED:
            node.resize(self.number, operation.size)
        elif operation.offset + operation.size > node.size:
            node.resize(self.number, operation.offset + operation.size)

    def _node(self, operation: Operation) -> Node:
        if operation.descriptor == NO_FILE:
            return self.names[operation.name]
        return self._open[operation.descriptor][1]

    def _named(self, operation: Operation) -> None:
        first, last = operation.names[0], operation.names[-1]
        if operation.kind is Kind.RENAMED:
            self._name(first, last, self.names[first])
        elif operation.kind is Kind.LINKED:
            self._name(None, last, self.names[first])
        elif operation.kind is Kind.DIRECTORY_MADE:
            self._name(None, last, Node(is_directory=True))
        elif last in self.names:
            # Sockets come by other ways than opening.
            self._name(last, None, None)

    def _name(self, gone: str | None, new: str | None, node: Node | None) -> None:
        directory = str(PurePath(new or gone or "").parent)
        naming = Naming(self.number, directory, gone, new, node)
        rename(self.names, naming)
        self.unsynced_names.append(naming)

    def seen(self) -> dict[str, bytes]:
        """The content of every file as the process sees it now."""
        fate = Fate(random.Random(0), ALL, self.number)
        return {
            name: bytes(content) + bytes(size - len(content))
            for name, content, size in self._files(self.names, fate)
        }

    def lose_power(self, chance: random.Random, way: str, target: Path) -> None:
        """Write the files as they may be found when the power comes back."""
        fate = Fate(chance, way, self.number)
        names = dict(self.synced_names)
        for naming in self.unsynced_names:
            if fate.keeps_change(naming.number):
                rename(names, naming)
        for name, node in names.items():
            if node.is_directory and self._is_reachable(names, name):
                (target / os.path.relpath(name, self.root)).mkdir(parents=True, exist_ok=True)
        for name, content, size in self._files(names, fate):
            _save(target / os.path.relpath(name, self.root), content, size)

    def _files(self, names: Names, fate: Fate) -> Iterator[tuple[str, bytearray, int]]:
        for name, node in names.items():
            if not node.is_directory and self._is_reachable(names, name):
                yield name, *remains(node, fate)

    def _is_reachable(self, names: Names, name: str) -> bool:
        """Whether the directories it is in are there too."""
        while name != self.root:
            name = str(PurePath(name).parent)
            if name not in names:
                return False
        return True


def rename(names: Names, naming: Naming) -> None:
    if naming.gone is not None:
        names.pop(naming.gone, None)
    if naming.new is not None and naming.node is not None:
        names[naming.new] = naming.node


def remains(node: Node, fate: Fate) -> tuple[bytearray, int]:
    """What is left of a file, and how long it is."""
    content, size = node.synced[:], node.synced_size
    kept = _newest_kept(node.unsynced, fate)
    for change in node.unsynced:
        if isinstance(change, Resize):
            if fate.keeps_change(change.number):
                size = apply(content, size, change)
        elif kept is None:
            size = apply(content, size, change)
        else:
            size = _overwrite_kept(content, size, change, kept)
    if fate.keeps_length and node.unsynced:
        size = max(size, node.size)
    return content, size


def _newest_kept(changes: list[Change], fate: Fate) -> dict[int, int] | None:
    """For each sector the newest write that reached it; None when all did.

    A sector goes to the disk as it is in memory, with everything that was written to it before.
    """
    if fate.keeps_all:
        return None
    kept: dict[int, int] = {}
    for change in changes:
        if isinstance(change, Write):
            for sector in fate.reached(change.number, change.sectors()):
                kept[sector] = change.number
    return kept


def _overwrite_kept(content: bytearray, size: int, write: Write, kept: dict[int, int]) -> int:
    for sector in write.sectors():
        if kept.get(sector, -1) >= write.number:
            offset, part = write.within(sector)
            overwrite(content, offset, part)
            size = max(size, offset + len(part))
    return size


def _save(path: Path, content: bytearray, size: int) -> None:
    with path.open("wb") as file:
        file.write(memoryview(content)[:size])
        file.truncate(size)
