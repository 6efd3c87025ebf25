"""Rules about the file and the log."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from tests.fault.evidence import Evidence
from tests.fault.rules.registry import rule


@rule("the database is whole")
def database_whole(evidence: Evidence) -> Iterator[str]:
    if evidence.database.integrity != ["ok"]:
        yield from evidence.database.integrity
    yield from evidence.database.strays


@rule("every payload has the checksum it was stored with")
def checksums_good(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs.values():
        if job.payload is None or crc32(job.payload) != job.checksum:
            yield job.id


@rule("nothing goes wrong inside the daemon that it does not expect")
def no_tracebacks(evidence: Evidence) -> Iterator[str]:
    _, found, rest = evidence.log.partition("Traceback (most recent call last)")
    if found:
        yield rest[:2000]


@rule("the counters equal the counts")
def counters_right(evidence: Evidence) -> Iterator[str]:
    kept, counted = evidence.database.counts, evidence.database.counted
    for lane in sorted(kept.keys() | counted.keys()):
        if kept.get(lane, 0) != counted.get(lane, 0):
            yield f"{lane}: {kept.get(lane, 0)} kept, {counted.get(lane, 0)} there"
