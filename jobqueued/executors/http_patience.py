"""How much a receiver may send before its answer begins."""

from __future__ import annotations

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

MOST_INTERIM = 20
"""Answers of the kind `103 Early Hints`; any number of them may come before the real one."""
PIECE = 2048
"""Bytes taken at a time while the real answer has not begun: some hundred heads fit in more."""


class BoundedAnswers(ResponseHandler):
    """The client's end of a connection, which hangs up on a flood of interim answers.

    They are parsed and kept as they come, so a receiver could fill the memory and the loop.
    """

    _interim = 0
    _begun = False

    def set_response_params(self, **parameters: Any) -> None:
        """A request is on its way."""
        self._interim, self._begun = 0, False
        super().set_response_params(**parameters)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """The head of an answer is there."""
        interim = 100 <= data[0].code <= 199 and data[0].code != 101
        self._interim += interim
        self._begun = self._begun or not interim
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        for taken in range(0, max(1, len(data)), PIECE):
            if self._begun:
                return super().data_received(data[taken:])
            if self._interim > MOST_INTERIM:
                return self._give_up()
            super().data_received(data[taken : taken + PIECE])
        return None

    def _give_up(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self.set_exception(HttpProcessingError(message="only interim answers came"))
