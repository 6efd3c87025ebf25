"""Where log lines go and how they look."""

from __future__ import annotations

import logging
import os
import sys

_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}


class _JournalFormatter(logging.Formatter):
    """One line an event with the journal's priority in front; the journal adds the time."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\n<7>")
        return f"<{_PRIORITIES.get(record.levelno, 7)}>{text}"


def set_up_log() -> None:
    """Log to standard error: with times for people, with priorities under systemd."""
    handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
