"""What a caller may send besides bodies and messages, and for how long it is waited for.

Uvicorn itself waits for ever for the end of a request's head, keeps all of it in memory as well as what comes
after a body in chunks (which would even count as headers), takes any number of requests before it answers the
first, loses the body of a request that offers another protocol, and never answers a WebSocket's head that it
cannot read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_LONGEST_BYTES = 64 * 1024
_PATIENCE_SECONDS = 30.0
#: Requests that wait for the answer to an earlier one on the same connection.
_MOST_WAITING = 16
_MOST_FRAMES = 1000
#: For one who is told that the WebSocket ends.
_FAREWELL_SECONDS = 15.0
_OFFERS = frozenset({b"connection", b"upgrade", b"http2-settings"})


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    _patience: asyncio.TimerHandle | None = None
    _is_in_head = False
    #: Whether the head is read again, without the offer of another protocol.
    _is_offer = False
    #: Since the last piece of a body, or beginning or end of a head, and whether there was one just now.
    _size = 0
    _has_moved = False

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = self._has_moved = True
        self._is_offer = False
        self._wait_for_head()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        self._is_in_head, self._has_moved = False, True
        self._is_offer = bool(self.parser.should_upgrade()) and not self._should_upgrade()
        if self._is_offer:
            return
        if len(self.pipeline) >= _MOST_WAITING:
            raise ValueError("too many requests before the first is answered")
        self._end_waiting()
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._has_moved = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        if not self._is_offer:
            super().on_message_complete()

    @override
    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._has_moved = False
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offer:
            if not self._is_offer:
                self.handle_websocket_upgrade()
                return
            self._read_again(data[offer.args[0] :])
        except HttpParserError:
            self._refuse("Invalid HTTP request received.")
        self._size = 0 if self._has_moved else self._size + len(data)
        if self._size > _LONGEST_BYTES:
            self._refuse("The head of the request is too long.")
        elif self._is_answered():  # the rest of a body that nobody wants, maybe: a head must follow in time
            self._wait_for_head()

    def _read_again(self, rest: bytes) -> None:
        """Without the offer of another protocol, which a server may pass over (RFC 9110, 7.8)."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse("Invalid HTTP request received.")
            return
        head = [b"%s %s HTTP/%s\r\n" % (method, self.url, version)]
        head += [b"%s: %s\r\n" % header for header in self.headers if header[0] not in _OFFERS]
        if any(b"close" in value.lower() for name, value in self.headers if name == b"connection"):
            head.append(b"connection: close\r\n")
        self.parser = HttpRequestParser(self)
        self.data_received(b"".join((*head, b"\r\n", rest)))

    def _is_answered(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _refuse(self, why: str) -> None:
        if self.transport.is_closing():
            return
        if self._is_answered():
            self.send_400_response(why)
        else:  # not in the middle of an answer
            self.transport.close()

    def _wait_for_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(_PATIENCE_SECONDS, self.transport.close)

    def _end_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One connection, from its head on, which the server has read once before."""

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.handshake_complete = self.close_sent = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    @override
    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # it asks for answers it does not read
            self.transport.abort()

    @override
    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < _MOST_FRAMES:
            super().handle_cont(event)
        else:
            self.transport.abort()

    @override
    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._end_soon()

    @override
    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            self._end_soon()

    def _end_soon(self) -> None:
        """Also if it does not read what it was sent."""
        self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)
