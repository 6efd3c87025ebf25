"""The files beside the database: the instance lock and the reserve for a full disk."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from jobqueued.model.errors import StoreBusy

RESERVE_BYTES = 8 * 1024 * 1024
ROOM_TO_OPEN = 1024 * 1024
_LOCK_PATIENCE = 30.0


class InstanceLock:
    """One daemon a database. Held by descriptor, so that handlers' launcher can hold it too."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire()
        except BaseException:
            os.close(self.fd)
            raise
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)

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

    def regain(self) -> bool:
        """Set the space aside again when there is room for it twice over."""
        return _free_bytes(self.path.parent) >= 2 * RESERVE_BYTES and self.take()


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
