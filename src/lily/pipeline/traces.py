"""Closes the trace of a request: a span from acceptance to the applied row, for sampled events only."""

from __future__ import annotations

import time
from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()


def trace_applied(query: str, sampled: Iterable[str]) -> None:
    """One `apply` span per sampled event (summaries.SCHEMA, `traces`); free when traces go nowhere."""
    tracer = trace.get_tracer(__name__)
    for traced in sampled:
        traceparent, received_us, event_id = traced.split(" ")
        span = tracer.start_span(
            "apply",
            context=_PROPAGATOR.extract({"traceparent": traceparent}),
            start_time=int(received_us) * 1000,
            attributes={"lily.query": query, "lily.event_id": event_id},
        )
        span.end(time.time_ns())
