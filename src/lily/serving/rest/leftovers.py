"""What a caller still sends when the answer is known already.

The server throws a small rest away as it comes and goes on with the caller's next request. For much, or for
what comes only when asked for or has no declared end, the answer says that the connection ends with it.
"""

from __future__ import annotations

from starlette.types import Message, Receive, Scope

_MOST_BYTES = 1024 * 1024
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

    def is_soon_over(self) -> bool:
        """Whether all of it was read, or little is left that will come unasked."""
        if self._is_read:
            return True
        headers = dict(self._scope["headers"])
        if b"expect" in headers or b"transfer-encoding" in headers:
            return False
        declared = headers.get(b"content-length", b"0")
        return declared.isdigit() and int(declared[:20]) <= _MOST_BYTES
