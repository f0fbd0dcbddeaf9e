"""Trace context of a request (W3C): continued when the caller sends one, begun otherwise."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class Trace:
    trace_id: str
    span_id: str
    flags: str
    span: Span

    @property
    def header(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def continue_trace(traceparent: str) -> Trace:
    """A new span in the caller's trace, or in a new trace when theirs is missing or malformed."""
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    known = match is not None and int(match[1], 16) != 0 and int(match[2], 16) != 0
    parent = _PROPAGATOR.extract({"traceparent": traceparent.strip()}) if known else None
    span = trace.get_tracer(__name__).start_span("request", context=parent, kind=SpanKind.SERVER)
    context = span.get_span_context()
    if span.is_recording() or (context.is_valid and not known):
        return Trace(
            f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{context.trace_flags:02x}", span
        )
    if match and known:
        return Trace(match[1], secrets.token_hex(8), match[3], span)
    return Trace(secrets.token_hex(16), secrets.token_hex(8), "00", span)
