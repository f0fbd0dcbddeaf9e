"""What the driver needs to know of a batch: one row per partition, wherever the batch itself went."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: Traces closed per partition and batch; the sampler keeps them few anyway.
_MOST_TRACES = 50

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("next_offset", pa.int64()),
        ("events", pa.int64()),
        ("dead", pa.int64()),
        ("newest_event", pa.timestamp("us", "UTC")),
        ("oldest_received", pa.timestamp("us", "UTC")),
        ("newest_received", pa.timestamp("us", "UTC")),
        ("traces", pa.list_(pa.string())),  # "<traceparent> <received, microseconds> <event id>"
    ]
)
SPARK_SCHEMA = (
    "partition INT, next_offset BIGINT, events BIGINT, dead BIGINT, newest_event TIMESTAMP, "
    "oldest_received TIMESTAMP, newest_received TIMESTAMP, traces ARRAY<STRING>"
)


def summarise(staged: pa.Table) -> pa.Table:
    """Staged rows in, one row per partition out."""
    counted = staged.select(["partition", "offset", "reason", "event_time", "received_at"])
    groups = counted.group_by("partition", use_threads=False).aggregate(
        [
            ("offset", "max"),
            ("offset", "count"),
            ("reason", "count"),
            ("event_time", "max"),
            ("received_at", "min"),
            ("received_at", "max"),
        ]
    )
    traces = [_traces(staged, partition) for partition in groups["partition"].to_pylist()]
    return pa.table(
        [
            groups["partition"],
            pc.add(groups["offset_max"], 1),
            groups["offset_count"],
            groups["reason_count"],
            groups["event_time_max"].cast(SCHEMA.field("newest_event").type),
            groups["received_at_min"].cast(SCHEMA.field("oldest_received").type),
            groups["received_at_max"].cast(SCHEMA.field("newest_received").type),
            pa.array(traces, SCHEMA.field("traces").type),
        ],
        schema=SCHEMA,
    )


def _traces(staged: pa.Table, partition: int) -> list[str]:
    """The sampled events of a partition; none, and nearly free, when no request was traced."""
    sampled = staged.filter(
        pc.and_kleene(pc.ends_with(staged["traceparent"], "-01"), pc.equal(staged["partition"], partition))
    ).slice(0, _MOST_TRACES)
    return [
        f"{row['traceparent']} {int(row['received_at'].timestamp() * 1e6)} {row['event_id']}"
        for row in sampled.select(["traceparent", "received_at", "event_id"]).to_pylist()
    ]
