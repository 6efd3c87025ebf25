"""What a Python handler raises to say how its job goes on. Runs on every CPython from 3.8 on."""

from __future__ import annotations


class Retry(Exception):
    """Run the job again: after so many seconds, or after its usual backoff."""

    def __init__(self, message: str = "", after: float | None = None) -> None:
        # Both are arguments of the exception, so it survives the way out of a process pool.
        super().__init__(message, after)
        self.after = None if after is None else float(after)
        self.message = message
        if self.after is not None and not 0 <= self.after < 1e9:
            raise ValueError(f"Retry takes a number of seconds, not {after!r}")

    def __str__(self) -> str:
        return str(self.message)


class Fatal(Exception):
    """Do not run the job again: it goes to the dead letters at once."""
