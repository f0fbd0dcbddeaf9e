"""A TCP proxy that can silence the connections on which certain words were said, without closing them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65_536


class Proxy:
    """Forwards to `target`; `cut` silences every connection over which a client says certain words."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._words: bytes | None = None
        self._said: dict[int, bytes] = {}
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, words: bytes) -> None:
        self._words = words

    def mend(self) -> None:
        self._words = None

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(self._target)
                key = id(client)
                self._said[key] = b""
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(key, source, sink, client), daemon=True).start()

    def _pump(self, key: int, source: socket.socket, sink: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if source is client:
                    self._said[key] = self._said[key][-_CHUNK:] + data
                if self._words is not None and self._words in self._said[key]:
                    continue  # swallowed: to both ends the other has just become silent
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.close()


@contextmanager
def proxy(target: tuple[str, int]) -> Iterator[Proxy]:
    running = Proxy(target)
    try:
        yield running
    finally:
        running.close()
