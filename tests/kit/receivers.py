"""A receiver of webhooks: takes requests over real HTTP, remembers them, and answers as a test wants."""

from __future__ import annotations

import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request; `at` is the moment it was read."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[[Received], Reply]


class Receiver:
    """`answering` may also hang: every request has a thread of its own."""

    def __init__(self, answering: Answering, tls: ssl.SSLContext | None = None) -> None:
        self.answering = answering
        self._received: list[Received] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def received(self) -> list[Received]:
        with self._lock:
            return list(self._received)

    def by_path(self) -> dict[str, list[Received]]:
        found: dict[str, list[Received]] = defaultdict(list)
        for each in self.received:
            found[each.path].append(each)
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self, request: Received) -> Reply:
        with self._lock:
            self._received.append(request)
        return self.answering(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Header and body are two writes, and the other side delays its acknowledgement of the first.
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = take(Received(self.command, self.path, headers, body))
                with suppress(OSError):
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(reply.body)))
                    self.end_headers()
                    self.wfile.write(reply.body)

            do_POST = do_GET = _serve

            def log_message(self, *_: Any) -> None:
                return None

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is no error of the receiver's."""


def accept(_request: Received) -> Reply:
    return Reply()


@contextmanager
def receiver(answering: Answering = accept, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    running = Receiver(answering, tls)
    try:
        yield running
    finally:
        running.close()
