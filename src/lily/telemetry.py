"""What Lily tells about itself: JSON logs, Prometheus metrics, OpenTelemetry traces."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import Counter, Gauge, Histogram

_LATENCIES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)

EVENTS_ACCEPTED = Counter("lily_events_accepted_total", "Events acknowledged by the log", ["lane"])
EVENTS_APPLIED = Counter("lily_events_applied_total", "Events applied to the database", ["lane"])
EVENTS_DEAD = Counter("lily_events_dead_total", "Records that became dead letters", ["lane"])
CHANGES_PUBLISHED = Counter("lily_changes_published_total", "Changes told on metadata-changes", ["lane"])
PROPAGATED = Counter("lily_tags_changed_total", "Assets whose effective tags changed")
PROPAGATION_SECONDS = Histogram("lily_propagation_seconds", "One run of propagation")
PROPAGATION_PROGRESS = Gauge(
    "lily_propagation_facts", "Facts the run of propagation under way has added", multiprocess_mode="livesum"
)
BATCH_SECONDS = Histogram(
    "lily_batch_phase_seconds", "Time of a batch by phase", ["lane", "phase"], buckets=_LATENCIES
)
VISIBLE_SECONDS = Histogram(
    "lily_event_visible_seconds",
    "From acceptance by the gateway to visible in the database",
    ["lane"],
    buckets=_LATENCIES,
)
DELIVERIES = Counter("lily_deliveries_total", "Attempts to tell a target something", ["outcome"])
DELIVERY_SECONDS = Histogram(
    "lily_delivery_seconds", "From the change to the target's acknowledgement", buckets=_LATENCIES
)
LANE_LAG = Gauge(
    "lily_lane_lag_events",
    "Events on the log and not yet applied",
    ["lane"],
    multiprocess_mode="livemostrecent",
)


def configure_logging(component: str, level: str) -> None:
    """One JSON object per line on standard error, from Lily and from the libraries alike."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _name_component(component),
    ]
    # Not through the standard library's logging, which takes four times as long: every request is logged.
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(_to_json)],
        logger_factory=_NamedLogger,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(_to_json),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)


class _NamedLogger:
    """Writes lines to standard error; one that cannot be written, as on a full disk, stops nobody's work."""

    def __init__(self, name: str = "") -> None:
        self.name = name  # for `add_logger_name`

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = exception = msg


def _to_json(event: Any, **options: Any) -> str:
    try:
        return json.dumps(event, **options)
    except (TypeError, ValueError):  # it holds what JSON has no form for
        return json.dumps({"event": repr(event)})


def configure_tracing(component: str, otlp_endpoint: str, ratio: float) -> None:
    """Export this share of traces when an endpoint is set; otherwise spans cost nothing and go nowhere."""
    if not otlp_endpoint:
        return
    provider = TracerProvider(
        resource=Resource.create({"service.name": f"lily-{component}"}),
        sampler=ParentBased(TraceIdRatioBased(ratio)),
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(otlp_endpoint)))
    trace.set_tracer_provider(provider)


def _name_component(component: str) -> Any:
    def add(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event["component"] = component
        return event

    return add
