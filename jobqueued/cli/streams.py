"""The three standard streams as they may be found: closed, or unable to show a character."""

from __future__ import annotations

import codecs
import os
import sys

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
IN_ASCII = {"█": "#", "░": ".", "…": "~"}
"""One character each, so that tables keep their width."""
HANDLER = "jobqueued.in_ascii"


def set_up_streams() -> None:
    """Open what is closed, and let what cannot be encoded be shown in another way."""
    codecs.register_error(HANDLER, in_ascii)
    for descriptor, (name, mode) in enumerate(STREAMS):
        _open_if_closed(descriptor)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        # Tests and embedding programs put other objects in their place.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    shown = "".join(IN_ASCII.get(each) or ascii(each)[1:-1] for each in missing)
    return shown, error.end


def _open_if_closed(descriptor: int) -> None:
    """The first file opened would become standard output, and get what is printed."""
    try:
        os.fstat(descriptor)
    except OSError:
        # The lowest free number, which is this one, as those below are open by now.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
