"""TLS before a PostgreSQL that has none: what a client sees is what a server with a certificate shows."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_ASKS_FOR_TLS = struct.pack("!ii", 8, 80877103)


@contextmanager
def tls_front(url: str, context: ssl.SSLContext) -> Iterator[str]:
    """The URL of the same database behind TLS; whoever does not ask for it is not let in."""
    place = urlsplit(url)
    server = (place.hostname or "", place.port or 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, server, context), daemon=True).start()
        front = f"127.0.0.1:{listener.getsockname()[1]}"
        yield place._replace(netloc=f"{place.netloc.rpartition('@')[0]}@{front}").geturl()


def _accept(listener: socket.socket, server: tuple[str, int], context: ssl.SSLContext) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, server, context), daemon=True).start()


def _serve(client: socket.socket, server: tuple[str, int], context: ssl.SSLContext) -> None:
    with client, suppress(OSError):
        if client.recv(len(_ASKS_FOR_TLS), socket.MSG_WAITALL) != _ASKS_FOR_TLS:
            return
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as secured,
            socket.create_connection(server) as plain,
        ):
            threading.Thread(target=_copy, args=(plain, secured), daemon=True).start()
            _copy(secured, plain)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
