"""Rules about what holds jobs back: limits are never exceeded, and nobody waits for nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.fault.evidence import TOLERANCE, Evidence
from tests.fault.limits import MOST_OF_KEY, PROBE_EVERY, RATES
from tests.fault.rules.executions import CLOCK_STEP, beyond
from tests.fault.rules.registry import rule

ROUNDING = 0.001


@rule("no more jobs of one key run at a time than its type allows")
def within_keys(evidence: Evidence) -> Iterator[str]:
    lanes = {
        job.id: f"{job.type} {job.line}"
        for job in evidence.jobs.values()
        if job.line is not None and job.type in MOST_OF_KEY
    }
    most = {lane: MOST_OF_KEY[lane.partition(" ")[0]] for lane in lanes.values()}
    yield from beyond(evidence, lanes, most)


@rule("no more jobs of a type start in any time than its rate allows")
def within_rates(evidence: Evidence) -> Iterator[str]:
    starts = _starts(evidence)
    for kind, rate in RATES.items():
        left, before = float(rate), 0.0
        for start in starts[kind]:
            # Who sets the clock ahead is given what would have come meanwhile.
            gone = 1.0 if _was_clock_set(evidence, before, start) else start - before
            left = min(float(rate), left + gone * rate) - 1
            before = start
            if left < -ROUNDING:
                yield f"one of {kind} too many at {start - evidence.history.began.wall:.3f}"


@rule("nothing of a paused type starts")
def paused_stays_paused(evidence: Evidence) -> Iterator[str]:
    starts = _starts(evidence)
    for pause in evidence.history.pauses:
        resumed = float("inf") if pause.resumed is None else pause.resumed.wall
        for start in starts[pause.type]:
            if pause.acknowledged.wall + CLOCK_STEP < start < resumed - CLOCK_STEP:
                since = start - pause.acknowledged.wall
                yield f"one of {pause.type} {since:.3f} s after it was paused"


@rule("an open breaker lets through no more than its probes")
def probes_apart(evidence: Evidence) -> Iterator[str]:
    starts = _starts(evidence)
    for breaker in evidence.history.breakers:
        least = PROBE_EVERY[breaker.type] - CLOCK_STEP
        probes = [
            start
            for start in starts[breaker.type]
            if breaker.since + TOLERANCE < start < breaker.last_seen
        ]
        for earlier, later in pairwise([breaker.since, *probes]):
            if later - earlier < least and not _was_clock_set(evidence, earlier, later):
                yield f"one of {breaker.type} {later - earlier:.3f} s after the last"


@rule("of every key as many as may run are in front, and they are the best")
def lined_up(evidence: Evidence) -> Iterator[str]:
    for line in evidence.history.lines:
        room = len(line.held_back)
        if line.key is not None and line.type in MOST_OF_KEY:
            room = max(0, MOST_OF_KEY[line.type] - line.running)
        wanted = [place >= room for place in range(len(line.held_back))]
        if line.held_back != wanted:
            told = "".join("-" if one else "+" for one in line.held_back)
            yield f"{line.type} {line.key}: {line.running} run, then {told}"


def _starts(evidence: Evidence) -> defaultdict[str, list[float]]:
    """When jobs of each type were claimed, in order; the daemon counts in milliseconds."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for job in evidence.jobs.values():
        found[job.type] += [round(attempt.started_at, 3) for attempt in job.attempts]
    for starts in found.values():
        starts.sort()
    return found


def _was_clock_set(evidence: Evidence, begin: float, end: float) -> bool:
    return any(
        begin - TOLERANCE <= moment.wall <= end + TOLERANCE for moment, _ in evidence.history.clock
    )
