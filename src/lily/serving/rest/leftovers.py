"""What a caller still sends when the answer is known already.

A server that answers before it has read all of a request closes the connection, and the caller's next
request on it is lost. So a small rest that comes at once is let come and thrown away; otherwise the answer
says that the connection ends with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import Message, Receive, Scope

_MOST_BYTES = 1024 * 1024
_PATIENCE_SECONDS = 1.0
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class Incoming:
    """The body of one request, as the application reads it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._is_read = scope["method"] in _WITHOUT_BODY

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body", False)
        return message

    async def is_finished(self) -> bool:
        """Whether all of it was read, or could be thrown away now."""
        if self._is_read:
            return True
        headers = dict(self._scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if b"expect" in headers or not declared.isdigit() or int(declared[:20]) > _MOST_BYTES:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._throw_away()
        return self._is_read

    async def _throw_away(self) -> None:
        size = 0
        while not self._is_read and size <= _MOST_BYTES:
            size += len((await self.receive()).get("body", b""))
