"""The files beside the database: the instance lock and the reserve for a full disk."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from jobqueued.model.errors import StoreBusy

RESERVE_BYTES = 8 * 1024 * 1024
ROOM_TO_OPEN = 1024 * 1024
_LOCK_PATIENCE = 30.0
_A_LITTLE = 64 * 1024
_BLOCK = 1024 * 1024
_READING_SECONDS = 3.0
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class InstanceLock:
    """One daemon a database. Held by descriptor, so that handlers' launcher can hold it too."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire()
            self._sign()
        except BaseException:
            os.close(self.fd)
            raise

    def _acquire(self) -> None:
        deadline = time.monotonic() + _LOCK_PATIENCE
        while True:
            try:
                return fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(self.fd)
                # A dead holder's launcher keeps the lock while it ends the last handlers.
                if _alive(holder) or time.monotonic() > deadline:
                    raise StoreBusy(
                        f"another daemon (pid {holder or 'unknown'}) holds {self.path}; "
                        "stop it first, or give this one another store.path"
                    ) from None
            time.sleep(0.02)

    def _sign(self) -> None:
        try:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def release(self) -> None:
        os.close(self.fd)


def lock_holder(database: Path) -> int | None:
    """The process that holds the database, or None; takes nothing."""
    path = database.with_name(database.name + ".lock")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _holder(fd)
    finally:
        os.close(fd)


def _holder(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Dead, though its parent has not noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Reserve:
    """Disk space set aside so that outcomes can still be written when the disk is full."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".reserve")

    def take(self) -> bool:
        """Set the space aside; False when there is none."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
            return True
        except OSError:
            os.ftruncate(fd, 0)
            return False
        finally:
            os.close(fd)

    def give_back(self) -> None:
        """Free the space for the database to use."""
        # Somebody who needed the space may have removed it already.
        with suppress(FileNotFoundError):
            os.truncate(self.path, 0)

    def make_room(self) -> None:
        """Give the space back when without it the database could not even be opened."""
        with suppress(OSError):
            if _free_bytes(self.path.parent) < ROOM_TO_OPEN:
                self.give_back()

    def is_out_of_reach(self) -> bool:
        """Whether not even a little more space is to be had: the disk is full, or our quota."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return error.errno in _NO_SPACE
        try:
            return _cannot_grow(fd)
        finally:
            os.close(fd)

    def regain(self) -> bool:
        """Set the space aside again when there is room for it twice over."""
        return _free_bytes(self.path.parent) >= 2 * RESERVE_BYTES and self.take()


def _cannot_grow(fd: int) -> bool:
    size = os.fstat(fd).st_size
    try:
        written = os.pwrite(fd, bytes(_A_LITTLE), size)
        os.ftruncate(fd, size)
    except OSError as error:
        return error.errno in _NO_SPACE
    return written < _A_LITTLE


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def make_directory(directory: Path) -> None:
    """Make a directory, with its parents, that survives a power cut."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in missing:
        _sync(made.parent, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Make a finished file and its name survive a power cut."""
    _sync(path, os.O_RDONLY)
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def trouble_reading(path: Path) -> OSError | None:
    """What keeps a database or its log from being read, looked for during some seconds at most.

    Only for a database that is given up: closing the file drops SQLite's locks.
    """
    deadline = time.monotonic() + _READING_SECONDS
    try:
        for file in (path, path.with_name(path.name + "-wal")):
            if file.exists():
                _read_through(file, deadline)
    except OSError as error:
        return error
    return None


def _read_through(file: Path, deadline: float) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        place = 0
        while time.monotonic() < deadline and (block := os.pread(descriptor, _BLOCK, place)):
            place += len(block)
    finally:
        os.close(descriptor)
