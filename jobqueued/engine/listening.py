"""Whether this process has run, and so could hear signs of life, in the last moments."""

from __future__ import annotations

import asyncio

from jobqueued import clock

SLICE_SECONDS = 0.05
SLICES = 10
"""On time, one after the other: half a second."""
LATE_SECONDS = 0.05
MOST_SLICES = 100
"""Of one that is so busy that hardly any is on time."""


async def listen() -> None:
    """Come back when the event loop has run on time for half a second.

    After it was stopped or held up, whatever came meanwhile is heard in that time.
    """
    on_time = 0
    for _ in range(MOST_SLICES):
        began = clock.monotonic()
        await asyncio.sleep(SLICE_SECONDS)
        late = clock.monotonic() - began - SLICE_SECONDS
        on_time = on_time + 1 if late < LATE_SECONDS else 0
        if on_time == SLICES:
            return
