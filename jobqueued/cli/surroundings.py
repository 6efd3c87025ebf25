"""The check-up of the machine: versions, limits, clock, disk."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from jobqueued import __version__, clock
from jobqueued.cli.findings import Finding, caution, fault, fine
from jobqueued.cli.text import plain, size, span

OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
FEW_DESCRIPTORS = 1024
LITTLE_SPACE = 64 << 20
SCARCE_SPACE = 1 << 30
RELEASED = 1_760_000_000_000
"""A time before which no clock is right, as this program did not exist."""
CLOCK_TOLERANCE = 60_000

REMOTE_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.sshfs", "fuse.glusterfs", "lustre", "nfs", "nfs4"}
    | {"smb3", "smbfs", "virtiofs"}
)


def versions() -> Iterator[Finding]:
    """This program, Python and SQLite."""
    yield fine("versions", f"jobqueued {__version__}, Python {platform.python_version()}")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        fix = f"install a Python that is built with SQLite {oldest} or newer"
        yield fault("sqlite", f"SQLite {sqlite3.sqlite_version} is too old", fix)
    else:
        yield fine("sqlite", f"SQLite {sqlite3.sqlite_version}")


def descriptors() -> Finding:
    """How many files and connections a daemon started from here could open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < FEW_DESCRIPTORS:
        fix = "raise it: `ulimit -n 4096`, or LimitNOFILE= in the systemd unit"
        return caution("descriptors", f"only {limit} open files are allowed", fix)
    return fine("descriptors", f"{limit} open files are allowed")


def clock_sanity(database: Path) -> Finding:
    """The clock must not be behind what was written before."""
    now, fix = clock.now(), "set the clock, and keep it right with NTP"
    if now < RELEASED:
        return fault("clock", f"it says {clock.rfc3339(now)}, which is long past", fix)
    ahead = _written_at(database) - now
    if ahead > CLOCK_TOLERANCE:
        behind = f"it is {span(ahead / 1000)} behind the last write to the database"
        return fault("clock", behind, fix)
    return fine("clock", clock.rfc3339(now))


def directory(database: Path) -> Iterator[Finding]:
    """Where the database is kept: writable, on this machine's own disk, with space left."""
    place = database.parent
    existing = _nearest_existing(place)
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        fix = "mount it writable; under systemd, name it in ReadWritePaths= of the unit"
        yield fault("directory", f"{plain(str(existing))} is on a read-only mount", fix)
    elif not os.access(existing, os.W_OK | os.X_OK):
        fix = "run this as the user the daemon runs as, or give that user the directory"
        yield fault("directory", f"{plain(str(existing))} is not writable", fix)
    elif existing == place:
        yield fine("directory", f"{plain(str(place))} is writable")
    else:
        yield fine("directory", f"{plain(str(place))} will be made by the first start")
    yield _file_system(existing)
    yield _space(existing)


def _written_at(database: Path) -> int:
    files = (database, database.with_name(database.name + "-wal"))
    return max((int(file.stat().st_mtime * 1000) for file in files if file.exists()), default=0)


def _nearest_existing(place: Path) -> Path:
    return next(each for each in (place, *place.parents) if each.is_dir())


def _file_system(place: Path) -> Finding:
    kind = file_system_of(place, Path("/proc/self/mountinfo").read_text())
    if kind in REMOTE_FILE_SYSTEMS:
        fix = "set store.path to a directory on a local disk: SQLite's locks need one"
        return fault("file system", f"{plain(str(place))} is on {kind}, a network one", fix)
    return fine("file system", f"{kind}, local")


def file_system_of(place: Path, mounts: str) -> str:
    """The kind of file system a directory is on, from the text of `mountinfo`."""
    best, kind = -1, "unknown"
    resolved = place.resolve()
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].encode().decode("unicode_escape"))
        # The last of several mounts on one point is the one that is seen.
        if (resolved == mount or mount in resolved.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), after.split()[0]
    return kind


def _space(place: Path) -> Finding:
    free, fix = shutil.disk_usage(place).free, "make room, or move store.path to a larger disk"
    if free < LITTLE_SPACE:
        return fault("disk space", f"only {size(free)} are free", fix)
    if free < SCARCE_SPACE:
        return caution("disk space", f"only {size(free)} are free", fix)
    return fine("disk space", f"{size(free)} are free")
