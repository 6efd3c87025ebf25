"""Where log lines go and how they look."""

from __future__ import annotations

import logging
import os
import sys
from queue import Full, Queue
from threading import Thread
from typing import TextIO

MOST_LINES = 10_000
CLOSE_SECONDS = 2.0
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}


_VISIBLE = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}
"""What handlers say may hold characters that steer a terminal."""


class _JournalFormatter(logging.Formatter):
    """One line an event with the journal's priority in front; the journal adds the time."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\n<7>")
        return f"<{_PRIORITIES.get(record.levelno, 7)}>{text}"


class QueuedHandler(logging.Handler):
    """Writes lines in a thread of its own, so that nobody waits for a reader that has stalled."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: Queue[str | None] = Queue(MOST_LINES)
        self._left_out = 0
        self._thread = Thread(target=self._write_lines, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line; one that finds no room is counted, and the count is told later."""
        text = self.format(record).translate(_VISIBLE)
        if self._left_out:
            text = f"{text} ({self._left_out} lines before this one were left out)"
        try:
            self._lines.put_nowait(text)
            self._left_out = 0
        except Full:
            self._left_out += 1

    def close(self) -> None:
        """Write what is queued, but do not wait for ever."""
        try:
            self._lines.put(None, timeout=CLOSE_SECONDS)
            self._thread.join(CLOSE_SECONDS)
        except Full:
            pass
        super().close()

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(f"{line}\n")
                if self._lines.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                # Nobody reads any more: the daemon goes on without a log.
                return


def set_up_log() -> None:
    """Log to standard error: with times for people, with priorities under systemd."""
    handler = QueuedHandler(sys.stderr)
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
