"""Wraps every exchange: trace context in, safe headers out, one log line and one measurement at the end."""

from __future__ import annotations

import time
from typing import Any

import structlog
from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily.serving.metrics import REQUESTS, SECONDS
from lily.serving.rest.acts import Acts
from lily.serving.rest.leftovers import Incoming
from lily.serving.rest.problems import InternalError, answer
from lily.serving.traces import Trace, continue_trace

#: Sent unless a route has said otherwise.
_SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_STRICT_HEADERS = ((b"strict-transport-security", b"max-age=31536000"),)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})

_log = structlog.get_logger("lily.access_log")


class Exchanges:
    """Pure ASGI, outermost: also what goes wrong inside ends as a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._acts = Acts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace = continue_trace(Request(scope).headers.get("traceparent", ""))
        given: dict[str, Any] = scope.get("state") or {}
        scope["state"] = given | {"trace_id": trace.trace_id, "traceparent": trace.header}
        incoming = Incoming(scope, receive)
        exchange = _Exchange(scope, incoming, send, trace, self._acts)
        try:
            await self._app(scope, incoming.receive, exchange.send)
        except Exception:  # the main loop: whatever it is, the caller gets a problem and we get the trace
            await exchange.fail()
        finally:
            exchange.record()


class _Exchange:
    def __init__(self, scope: Scope, incoming: Incoming, send: Send, trace: Trace, acts: Acts) -> None:
        self._scope = scope
        self._incoming = incoming
        self._acts = acts
        self._send = send
        self._trace = trace
        self._started = time.perf_counter()
        self._status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._acts.note(Request(self._scope), message["status"])
            self._status = message["status"]
            given = message.setdefault("headers", [])
            names = {name for name, _ in given}
            message["headers"] = [*given, *(each for each in self._headers() if each[0] not in names)]
            if not self._incoming.is_soon_over():
                message["headers"].append((b"connection", b"close"))
        await self._send(message)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        rate_limit = self._scope["state"].get("rate_limit")
        limits = rate_limit.headers().items() if rate_limit else ()
        return [
            (b"traceresponse", self._trace.header.encode()),
            (b"x-request-id", self._trace.trace_id.encode()),
            *_SAFE_HEADERS,
            *((name.encode(), value.encode()) for name, value in limits),
            *(_STRICT_HEADERS if self._scope["scheme"] == "https" else ()),
        ]

    async def fail(self) -> None:
        _log.exception("request_failed", trace_id=self._trace.trace_id)
        if self._status:
            return
        error = InternalError("something went wrong on our side; tell us the trace_id")
        await answer(Request(self._scope), error)(self._scope, self._incoming.receive, self.send)

    def record(self) -> None:
        seconds = time.perf_counter() - self._started
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        route = getattr(self._scope.get("route"), "path", "unmatched")
        self._trace.span.update_name(f"{method} {route}")
        self._trace.span.set_attribute("http.response.status_code", self._status)
        self._trace.span.end()
        REQUESTS.labels(method, route, self._status).inc()
        SECONDS.labels(method, route).observe(seconds)
        if route in _QUIET_ROUTES:
            return
        principal = self._scope["state"].get("principal")
        _log.info(
            "request",
            method=method,
            route=route,
            status=self._status,
            ms=round(seconds * 1000, 1),
            tenant=principal.tenant_id if principal else None,
            trace_id=self._trace.trace_id,
        )
