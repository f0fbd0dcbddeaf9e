"""A batch on its way through each lane, with the real Spark, PostgreSQL and staging."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kit.records import batch, poison, sound
from kit.staging import Catalog
from lily.domain.assets import Lane
from lily.pipeline.jobs import leaf, structural
from lily.pipeline.lanes import LaneQuery
from lily.pipeline.transforms.records import as_records

RECORDS = [sound(f"asset {number}", {"metadata": {"n": number}}) for number in range(40)]
RECORDS += [poison("bad JSON", "malformed", b"{"), poison("unknown type", "unknown_type", ce_type=b"x")]


def apply_batch(lane: Lane, catalog: Catalog, records: DataFrame, batch_id: int) -> list[str]:
    """Apply as the lane's query does; returns who was woken."""
    woken: list[str] = []
    name = structural.NAME if lane is Lane.STRUCTURAL else leaf.NAME
    query = LaneQuery(name, lane, catalog.applier, lambda _: woken.append("relay"))
    if lane is Lane.STRUCTURAL:
        structural.apply_batch(query, records.transform(as_records), batch_id)
    else:
        leaf.apply_batch(query, catalog.url, records.transform(as_records), batch_id)
    return woken


def positions(catalog: Catalog) -> list[dict[str, Any]]:
    return catalog.fetch("SELECT query, batch_id, offsets, events, dead FROM stream_positions")


@pytest.mark.parametrize("lane", [Lane.STRUCTURAL, Lane.LEAF])
def test_a_batch_is_applied_once_and_its_end_recorded(
    spark: SparkSession, catalog: Catalog, lane: Lane
) -> None:
    records = batch(spark, RECORDS).repartition(2)
    assert apply_batch(lane, catalog, records, batch_id=5) == ["relay"]
    assert len(catalog.rows()) == 40
    assert len(catalog.fetch("SELECT FROM dead_letters")) == 2
    name = f"assets-{lane.value}"
    assert positions(catalog) == [
        {"query": name, "batch_id": 5, "offsets": {"0": 42}, "events": 42, "dead": 2}
    ]
    assert {row["lane"] for row in catalog.fetch("SELECT lane FROM changes")} == {lane.value}
    before = catalog.changes()
    assert apply_batch(lane, catalog, records, batch_id=5) == []
    assert catalog.changes() == before


@pytest.mark.parametrize("lane", [Lane.STRUCTURAL, Lane.LEAF])
def test_an_empty_batch_changes_nothing(spark: SparkSession, catalog: Catalog, lane: Lane) -> None:
    assert apply_batch(lane, catalog, batch(spark, []), batch_id=1) == []
    assert positions(catalog) == []
