"""What the driver learns of a batch."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from kit.events import at
from lily.pipeline.staging import SCHEMA as STAGED
from lily.pipeline.summaries import SCHEMA, summarise

TRACED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOON = at(0)
UNTRACED = TRACED.removesuffix("01") + "00"


def staged(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=STAGED)


def row(partition: int, offset: int, received: datetime = NOON, **values: Any) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": offset,
        "received_at": received,
        "event_time": received,
    } | values


def by_partition(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {line["partition"]: line for line in summarise(table).to_pylist()}


def test_each_partition_has_one_line_with_its_next_offset() -> None:
    lines = by_partition(staged(row(0, 7), row(1, 3), row(0, 8)))
    assert {partition: line["next_offset"] for partition, line in lines.items()} == {0: 9, 1: 4}
    assert {partition: line["events"] for partition, line in lines.items()} == {0: 2, 1: 1}


def test_dead_letters_are_counted_among_the_events() -> None:
    line = by_partition(staged(row(0, 0), row(0, 1, reason="malformed"), row(0, 2, reason="empty")))[0]
    assert (line["events"], line["dead"]) == (3, 2)


def test_the_ends_of_the_times_are_kept() -> None:
    line = by_partition(staged(row(0, 0, at(2)), row(0, 1, at(1)), row(0, 2, at(3), event_time=at(9))))[0]
    assert (line["oldest_received"], line["newest_received"], line["newest_event"]) == (at(1), at(3), at(9))


def test_only_sampled_events_are_traced_and_not_without_bound() -> None:
    rows = [row(0, n, traceparent=TRACED, event_id=f"e{n}") for n in range(100)]
    line = by_partition(staged(*rows, row(0, 100, traceparent=UNTRACED), row(0, 101)))[0]
    assert len(line["traces"]) == 50
    assert line["traces"][0] == f"{TRACED} {int(at(0).timestamp() * 1e6)} e0"


def test_an_empty_batch_has_no_lines() -> None:
    summary = summarise(staged())
    assert summary.num_rows == 0
    assert summary.schema == SCHEMA
