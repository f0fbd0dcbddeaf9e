"""Keeps every change of every asset in the lake: `metadata-changes` → `lily.history`."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import Topic
from lily.pipeline.session import HISTORY_POOL, query_name
from lily.pipeline.sources import LAKE_PACE, read_topics
from lily.pipeline.transforms.records import in_few_tasks
from lily.repositories.iceberg.catalog import history_table
from lily.settings import Settings

NAME = "history"

_CHANGE = """
    tenant_id STRING, asset_id STRING, version INT, event_id STRING, event_time TIMESTAMP,
    applied_at TIMESTAMP, outcome STRING, actor STRING, changed ARRAY<STRING>, lane STRING, seq BIGINT,
    asset STRING, incident_id STRING
"""


def start(session: SparkSession, settings: Settings) -> StreamingQuery:
    """Run until everything told so far is in the lake."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", HISTORY_POOL)
    return (
        read_topics(session, settings.kafka, [Topic.METADATA_CHANGES], LAKE_PACE)
        .transform(read_changes)
        .transform(in_few_tasks)
        .writeStream.queryName(query_name(settings, NAME))
        .format("iceberg")
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .option("fanout-enabled", "true")
        .option("distribution-mode", "none")  # no shuffle: a batch lies in one day, seldom two
        .trigger(availableNow=True)
        .toTable(history_table(settings.lake.namespace))
    )


def read_changes(events: DataFrame) -> DataFrame:
    """Change events in, rows of `lily.history` out; what happened to incidents is in `lily.events`."""
    parsed = F.from_json(F.col("value").cast("string"), _CHANGE).alias("change")
    return events.select(parsed).select("change.*").where("incident_id IS NULL").drop("incident_id")
