"""What comes before a request's body: it may be only so long, and must come in time.

Uvicorn itself would wait for the end of a head for ever, and keep all of it in memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_LONGEST_BYTES = 64 * 1024
_PATIENCE_SECONDS = 30.0


class BoundedHeads(HttpToolsProtocol):
    """One connection."""

    _patience: asyncio.TimerHandle | None = None
    _size = 0

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait_for_head()

    @override
    def on_headers_complete(self) -> None:
        self._end_waiting()
        super().on_headers_complete()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._patience is None:
            return
        self._size += len(data)
        if self._size > _LONGEST_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._patience is None:
            self._size = 0
            self._patience = self.loop.call_later(_PATIENCE_SECONDS, self.transport.close)

    def _end_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
