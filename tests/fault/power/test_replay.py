"""The replayer by itself: what may be left of files after a few calls, and what may not."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fault.power.chance import ALL, IN_ORDER, NOTHING, SECTORS, WAYS, WRITES
from tests.fault.power.recording import CREATED, EMPTIED, NO_FILE, Kind, Operation
from tests.fault.power.replay import SECTOR, Disk

OLD, NEW = b"o" * SECTOR * 4, b"n" * SECTOR * 4
FILE, FOLDER = 3, 4


class Calls(list[Operation]):
    """Calls of a process in a directory, made up."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(
        self, kind: Kind, descriptor: int = NO_FILE, *names: str, offset: int = 0, size: int = 0,
        data: bytes = b"",
    ) -> None:  # fmt: skip
        paths = tuple(str(self._root / name) for name in names) or ("",)
        now = len(self)
        self.append(Operation(kind, descriptor, now, now, offset, size, paths, data))

    def create(self, name: str) -> None:
        self.add(Kind.OPENED, FILE, name, offset=CREATED)

    def write(self, data: bytes, offset: int = 0) -> None:
        self.add(Kind.WRITTEN, FILE, offset=offset, data=data)

    def sync(self) -> None:
        self.add(Kind.SYNCED, FILE)

    def sync_directory(self) -> None:
        self.add(Kind.OPENED, FOLDER, "", size=-1)
        self.add(Kind.SYNCED, FOLDER)


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path.resolve())


def left(tmp_path: Path, calls: Iterable[Operation], *ways: str) -> list[dict[str, bytes]]:
    """What many cuts leave: contents by name."""
    disk = Disk(tmp_path)
    disk.follow(calls)
    found = []
    for number in range(200):
        target = tmp_path / f"image-{number}"
        target.mkdir()
        disk.lose_power(random.Random(number), ways[number % len(ways)], target)
        found.append({path.name: path.read_bytes() for path in target.iterdir()})
    return found


def test_what_was_synced_stays(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.write(OLD)
    calls.sync()
    calls.sync_directory()
    assert all(image == {"a": OLD} for image in left(tmp_path, calls, *WAYS))


def test_a_name_needs_a_sync_of_its_directory(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.write(OLD)
    calls.sync()
    images = left(tmp_path, calls, *WAYS)
    assert {} in images
    assert {"a": OLD} in images
    assert all(image in ({}, {"a": OLD}) for image in images)


@pytest.fixture
def overwritten(calls: Calls) -> Calls:
    """A synced file, and a write that is not."""
    calls.create("a")
    calls.write(OLD)
    calls.sync()
    calls.sync_directory()
    calls.write(NEW)
    return calls


def test_a_write_tears_at_sectors(tmp_path: Path, overwritten: Calls) -> None:
    found = {image["a"] for image in left(tmp_path, overwritten, SECTORS)}
    for content in found:
        sectors = [content[at : at + SECTOR] for at in range(0, len(content), SECTOR)]
        assert set(sectors) <= {OLD[:SECTOR], NEW[:SECTOR]}
    assert len(found) == 2**4


@pytest.mark.parametrize(
    ("way", "possible"), [(NOTHING, {OLD}), (ALL, {NEW}), (WRITES, {OLD, NEW})]
)
def test_a_write_is_kept_or_dropped(
    tmp_path: Path, overwritten: Calls, way: str, possible: set[bytes]
) -> None:
    assert {image["a"] for image in left(tmp_path, overwritten, way)} == possible


def test_in_order_the_last_write_is_torn_after_some_sector(
    tmp_path: Path, overwritten: Calls
) -> None:
    found = {image["a"] for image in left(tmp_path, overwritten, IN_ORDER)}
    assert found == {NEW[: at * SECTOR] + OLD[at * SECTOR :] for at in range(5)}


def test_a_sector_has_all_that_was_written_to_it_before(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.sync_directory()
    calls.write(b"1" * 100)
    calls.write(b"2" * 100, 100)
    possible = {b"", b"1" * 100, b"1" * 100 + b"2" * 100, bytes(200), b"1" * 100 + bytes(100)}
    assert {image["a"] for image in left(tmp_path, calls, WRITES, SECTORS)} == possible


def test_a_file_may_be_long_and_empty(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.sync_directory()
    calls.write(NEW)
    assert bytes(len(NEW)) in {image["a"] for image in left(tmp_path, calls, SECTORS)}


def test_no_later_name_without_the_earlier(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.write(OLD)
    calls.sync()
    calls.add(Kind.RENAMED, NO_FILE, "a", "b")
    calls.add(Kind.LINKED, NO_FILE, "b", "c")
    calls.add(Kind.UNLINKED, NO_FILE, "b")
    possible = [set(), {"a"}, {"b"}, {"b", "c"}, {"c"}]
    found = {frozenset(image) for image in left(tmp_path, calls, *WAYS)}
    assert found == {frozenset(names) for names in possible}


def test_lengths(tmp_path: Path, overwritten: Calls) -> None:
    overwritten.add(Kind.RESIZED, FILE, size=10)
    overwritten.add(Kind.ALLOCATED, FILE, offset=0, size=30)
    overwritten.sync()
    assert left(tmp_path, overwritten, *WAYS)[0] == {"a": NEW[:10] + bytes(20)}


def test_emptying_a_file_may_not_have_happened(tmp_path: Path, calls: Calls) -> None:
    calls.create("a")
    calls.write(OLD)
    calls.sync()
    calls.sync_directory()
    calls.add(Kind.OPENED, FILE, "a", offset=EMPTIED)
    assert {image["a"] for image in left(tmp_path, calls, *WAYS)} == {b"", OLD}


def test_what_is_in_a_lost_directory_is_lost(tmp_path: Path, calls: Calls) -> None:
    calls.add(Kind.DIRECTORY_MADE, NO_FILE, "d")
    calls.create("d/a")
    calls.add(Kind.OPENED, FOLDER, "d", size=-1)
    calls.add(Kind.SYNCED, FOLDER)
    disk = Disk(tmp_path)
    disk.follow(calls)
    target = tmp_path / "image"
    target.mkdir()
    disk.lose_power(random.Random(1), NOTHING, target)
    assert list(target.iterdir()) == []
