"""What a caller still sends when the answer is known already.

A server that answers before it has read all of a request closes the connection, and the caller's next request
on it is lost. So the rest is let come and thrown away, if it is not too much and comes at once; otherwise the
answer says that the connection ends with it.
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope

from lily.access.requests import MAX_BODY_BYTES

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
        declared = headers.get(b"content-length", b"0" if b"transfer-encoding" not in headers else b"")
        if not declared.isdigit() or int(declared[:20]) > MAX_BODY_BYTES or b"expect" in headers:
            return False
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not self._is_read:
                    await self.receive()
        except TimeoutError:
            return False
        return True
